"""Texts → id tensors and masks; padding happens here and nowhere else."""

from __future__ import annotations

import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from submission.ids import PADDING
from submission.text import beginning, drop_urls, premise_words, query_words
from submission.vocabulary import Vocabulary


@dataclass(frozen=True)
class Lengths:
    """How many words or pieces of a text a network sees (thesis: 10 and 100 words)."""

    query: int = 10
    premise: int = 100


class Encoder(ABC):
    """Texts to ids, cut to the checkpoint's lengths."""

    file: ClassVar[str]  # in a checkpoint, what `dumps` gives
    lengths: Lengths
    reading: str  # encoders of the same reading get the same from `read`

    @abstractmethod
    def query(self, text: str) -> list[int]:
        """The ids of a conclusion or title, as written."""

    @abstractmethod
    def read(self, text: str) -> list[Any]:
        """The part of a premise, as written, that the network sees: its words, or its pieces' ids."""

    @abstractmethod
    def ids(self, read: list[Any]) -> list[int]:
        """The ids of what `read` gave."""

    @abstractmethod
    def prepared(self, text: str) -> list[int]:
        """The ids of a premise that is in its form already: words joined by blanks, or without URLs."""

    @abstractmethod
    def terms(self, ids: list[int]) -> list[str]:
        """The words or pieces of ids, for people."""

    @abstractmethod
    def dumps(self) -> bytes:
        """The content of its file."""

    def premise(self, text: str) -> list[int]:
        """The ids of a premise, as written."""
        return self.ids(self.read(text))


class WordEncoder(Encoder):
    """For the word networks."""

    file = "vocabulary.txt"

    def __init__(self, vocabulary: Vocabulary, lengths: Lengths) -> None:
        self.vocabulary = vocabulary
        self.lengths = lengths
        self.reading = f"{lengths.premise} words"

    def query(self, text: str) -> list[int]:
        """The ids of the words of a conclusion or title."""
        return self.vocabulary.ids(query_words(text)[: self.lengths.query])

    def read(self, text: str) -> list[str]:
        """The words of a premise, each a single object in memory however often it occurs."""
        return [sys.intern(word) for word in beginning(text, self.lengths.premise, premise_words)]

    def ids(self, read: list[str]) -> list[int]:
        """The ids of words."""
        return self.vocabulary.ids(read)

    def prepared(self, text: str) -> list[int]:
        """The ids of words joined by blanks."""
        return self.vocabulary.ids(text.split()[: self.lengths.premise])

    def terms(self, ids: list[int]) -> list[str]:
        """The words; an unknown one is (unknown)."""
        return [self.vocabulary.term(number) for number in ids]

    def dumps(self) -> bytes:
        """The vocabulary."""
        return self.vocabulary.dumps().encode()


class PieceEncoder(Encoder):
    """For the BERT networks: word pieces, without special ones, which the network itself puts in."""

    file = "tokenizer.json"

    def __init__(self, tokenizer: Tokenizer, lengths: Lengths) -> None:
        self.lengths = lengths
        self._tokenizer = tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.reading = f"{lengths.premise} pieces of {hashlib.sha256(self.dumps()).hexdigest()}"

    def query(self, text: str) -> list[int]:
        """The ids of the pieces of a conclusion or title."""
        return self._ids(drop_urls(text), self.lengths.query)

    def read(self, text: str) -> list[int]:
        """The ids of the pieces of a premise."""
        return beginning(text, self.lengths.premise, lambda part: self._ids(drop_urls(part), self.lengths.premise))

    def ids(self, read: list[int]) -> list[int]:
        """The same."""
        return read

    def prepared(self, text: str) -> list[int]:
        """The ids of the pieces of a text without URLs."""
        return self._ids(text, self.lengths.premise)

    def terms(self, ids: list[int]) -> list[str]:
        """The pieces, ## before those that go on a word."""
        return [str(self._tokenizer.id_to_token(number)) for number in ids]

    def dumps(self) -> bytes:
        """The tokenizer."""
        return self._tokenizer.to_str(pretty=False).encode()

    def _ids(self, text: str, most: int) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids[:most]
        return ids


def load_encoder(form: str, directory: Path, lengths: Lengths) -> Encoder:
    """The encoder of a form ("words" or "bert") from a directory that has its file. Raises OSError, ValueError."""
    if form == "words":
        return WordEncoder(Vocabulary.load(directory / WordEncoder.file), lengths)
    return PieceEncoder(Tokenizer.from_str((directory / PieceEncoder.file).read_text(encoding="utf-8")), lengths)


def pad(sequences: Sequence[Sequence[int] | np.ndarray]) -> tuple[Tensor, Tensor]:
    """Ids of texts to a pair (ids, mask): ids (B, L) int64 padded with 0, mask (B, L) bool, L the longest but at least 1."""
    ids, mask = _padded(sequences, np.int64)
    return torch.from_numpy(ids), torch.from_numpy(mask)


def _padded(sequences: Sequence[Sequence[int] | np.ndarray], dtype: type[np.integer]) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.array([len(sequence) for sequence in sequences], dtype=int)
    mask = np.arange(lengths.max(initial=1)) < lengths[:, None]
    ids = np.full(mask.shape, PADDING, dtype=dtype)
    ids[mask] = np.concatenate([np.empty(0, dtype=np.int32), *sequences])
    return ids, mask


@dataclass(frozen=True)
class Padded:
    """Texts as ids, padded once to one length, so that batches of them are cut out: ids (N, L) int32, lengths (N,)."""

    ids: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int] | np.ndarray]) -> Padded:
        """From the ids of each text."""
        ids, mask = _padded(sequences, np.int32)
        return cls(torch.from_numpy(ids), torch.from_numpy(mask.sum(1)))

    def take(self, rows: np.ndarray | Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        """Ids (B, L) int64 and mask (B, L) of some rows, cut to the longest of them."""
        rows = torch.as_tensor(rows)
        lengths = self.lengths[rows]
        longest = max(1, int(lengths.max()))
        mask = torch.arange(longest) < lengths[:, None]
        return self.ids.index_select(0, rows)[:, :longest].long().to(device), mask.to(device)


def batches(lengths: Sequence[int] | np.ndarray, size: int) -> list[np.ndarray]:
    """Row numbers in batches of similar length, a function of the lengths alone: a resumed run sees the same ones."""
    order = np.argsort(lengths, kind="stable")
    return [order[start : start + size] for start in range(0, len(order), size)]
