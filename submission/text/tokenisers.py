"""Texts → ids, cut to what a network sees of them."""

from __future__ import annotations

import hashlib
import sys
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from tokenizers import Tokenizer

from submission.text.ids import Reads
from submission.text.normalise import LATEST_RULE, TextRule, beginning, drop_urls, premise_words, query_words
from submission.text.pieces import Pieces, load_tokenizer
from submission.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Lengths:
    """The numbers of words or pieces that a network reads of query and premise (thesis: 10 and 100 words)."""

    query: int = 10
    premise: int = 100


class Tokeniser(ABC):
    """Texts to ids, cut to the checkpoint's lengths."""

    file: ClassVar[str]  # in a checkpoint, what `dumps` gives
    lengths: Lengths
    reading: str  # tokenisers of the same reading get the same from `read`
    rule: TextRule = 1  # by which it reads words; pieces have had a single one yet

    @classmethod
    @abstractmethod
    def load(cls, directory: Path, lengths: Lengths, rule: TextRule) -> Self:
        """Load a tokeniser from a directory that has its file. Raises OSError, ValueError."""

    @abstractmethod
    def fits(self, terms: int) -> bool:
        """Tell whether its ids fit a network with vectors for so many ids."""

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
    def terms(self, ids: list[int]) -> list[str]:
        """The words or pieces of ids, for people."""

    @abstractmethod
    def dumps(self) -> bytes:
        """The content of its file."""

    def premise(self, text: str) -> list[int]:
        """The ids of a premise, as written."""
        return self.ids(self.read(text))

    def settings(self) -> dict[str, Any]:
        """Return its settings for a checkpoint's config.json."""
        return {"lengths": asdict(self.lengths)}


class WordTokeniser(Tokeniser):
    """For the word networks."""

    file = "vocabulary.txt"

    def __init__(self, vocabulary: Vocabulary, lengths: Lengths, rule: TextRule = LATEST_RULE) -> None:
        self.vocabulary = vocabulary
        self.lengths = lengths
        self.rule = rule
        self.reading = f"{lengths.premise} words by text rule {rule}"

    @classmethod
    def load(cls, directory: Path, lengths: Lengths, rule: TextRule) -> WordTokeniser:
        return cls(Vocabulary.load(directory / cls.file), lengths, rule)

    def settings(self) -> dict[str, Any]:
        """A checkpoint of the first text rule, which has none of this key, goes on to be read by it."""
        return super().settings() | ({} if self.rule == 1 else {"text_rule": self.rule})

    def fits(self, terms: int) -> bool:
        """Tell whether a network has vectors for exactly these ids."""
        return terms == len(self.vocabulary)

    def query(self, text: str) -> list[int]:
        """The ids of the words of a conclusion or title."""
        return self.vocabulary.ids(query_words(text, self.rule)[: self.lengths.query])

    def read(self, text: str) -> list[str]:
        """The words of a premise, each a single object in memory however often it occurs."""
        return [sys.intern(word) for word in beginning(text, self.lengths.premise, partial(premise_words, rule=self.rule))]

    def ids(self, read: list[str]) -> list[int]:
        """The ids of words."""
        return self.vocabulary.ids(read)

    def terms(self, ids: list[int]) -> list[str]:
        """The words; an unknown one is (unknown)."""
        return [self.vocabulary.term(number) for number in ids]

    def dumps(self) -> bytes:
        """Return the vocabulary as text."""
        return self.vocabulary.dumps().encode()


class PieceTokeniser(Pieces, Tokeniser):
    """For the BERT networks: word pieces."""

    def __init__(self, tokenizer: Tokenizer, lengths: Lengths) -> None:
        super().__init__(tokenizer)
        self.lengths = lengths
        self.reading = f"{lengths.premise} pieces of {hashlib.sha256(self.dumps()).hexdigest()}"

    @classmethod
    def load(cls, directory: Path, lengths: Lengths, rule: TextRule = 1) -> PieceTokeniser:
        """Load BERT's tokenizer, which unifies characters in its own way. Raises OSError, ValueError."""
        return cls(load_tokenizer(directory), lengths)

    def query(self, text: str) -> list[int]:
        """The ids of the pieces of a conclusion or title."""
        return self._ids(drop_urls(text), self.lengths.query)

    def read(self, text: str) -> list[int]:
        """The ids of the pieces of a premise."""
        return beginning(text, self.lengths.premise, lambda part: self._ids(drop_urls(part), self.lengths.premise))

    def ids(self, read: list[int]) -> list[int]:
        """They are ids already."""
        return read

    def terms(self, ids: list[int]) -> list[str]:
        """The pieces, ## before those that go on a word."""
        return [str(self._tokenizer.id_to_token(number)) for number in ids]

    def cut(self, text: str, most: int) -> str:
        """The beginning of a text that has its first pieces, so many, and no more."""
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return text if len(offsets) <= most else text[: offsets[most - 1][1]]

    def _ids(self, text: str, most: int) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids[:most]
        return ids


TOKENISERS: dict[Reads, type[Tokeniser]] = {"words": WordTokeniser, "pieces": PieceTokeniser}  # by what a network reads
