"""Texts → id tensors and masks; padding happens here and nowhere else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from tokenizers import Tokenizer
from torch import Tensor

from submission.rankers.base import PADDING
from submission.text import drop_urls, premise_words, query_words
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

    @abstractmethod
    def query(self, text: str) -> list[int]:
        """The ids of a conclusion or title, as written."""

    @abstractmethod
    def premise(self, text: str) -> list[int]:
        """The ids of a premise, as written."""

    @abstractmethod
    def prepared(self, text: str) -> list[int]:
        """The ids of a premise that is in its form already: words joined by blanks, or without URLs."""

    @abstractmethod
    def dumps(self) -> bytes:
        """The content of its file."""


class WordEncoder(Encoder):
    """For the word networks."""

    file = "vocabulary.txt"

    def __init__(self, vocabulary: Vocabulary, lengths: Lengths) -> None:
        self.vocabulary = vocabulary
        self.lengths = lengths

    def query(self, text: str) -> list[int]:
        """The ids of the words of a conclusion or title."""
        return self.vocabulary.ids(query_words(text)[: self.lengths.query])

    def premise(self, text: str) -> list[int]:
        """The ids of the words of a premise."""
        return self.vocabulary.ids(premise_words(text)[: self.lengths.premise])

    def prepared(self, text: str) -> list[int]:
        """The ids of words joined by blanks."""
        return self.vocabulary.ids(text.split()[: self.lengths.premise])

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

    def query(self, text: str) -> list[int]:
        """The ids of the pieces of a conclusion or title."""
        return self._ids(drop_urls(text), self.lengths.query)

    def premise(self, text: str) -> list[int]:
        """The ids of the pieces of a premise."""
        return self.prepared(drop_urls(text))

    def prepared(self, text: str) -> list[int]:
        """The ids of the pieces of a text without URLs."""
        return self._ids(text, self.lengths.premise)

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


def pad(sequences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Id lists to a pair (ids, mask): ids (B, L) int64 padded with 0, mask (B, L) bool, L the longest but at least 1."""
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    longest = max(1, int(lengths.max()))
    ids = torch.tensor([[*sequence, *[PADDING] * (longest - len(sequence))] for sequence in sequences])
    return ids, torch.arange(longest) < lengths[:, None]
