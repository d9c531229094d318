"""Convert texts to token ids, truncated to a network's input lengths."""

from __future__ import annotations

import hashlib
import sys
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from tokenizers import Tokenizer

from submission.text.normalisation import LATEST_RULE, TextRule, beginning, drop_urls, premise_words, query_words
from submission.text.token_ids import Reads
from submission.text.vocabulary import Vocabulary
from submission.text.word_pieces import Pieces, load_tokenizer


@dataclass(frozen=True)
class Lengths:
    """Maximum numbers of words or word pieces of query and premise (Entezari 2020: 10 and 100 words)."""

    query: int = 10
    premise: int = 100


class Tokeniser(ABC):
    """Converts texts to ids, truncated to the checkpoint's lengths."""

    file: ClassVar[str]  # file in a checkpoint
    lengths: Lengths
    reading: str  # cache key: tokenisers with equal keys return equal results of `read`
    rule: TextRule = 1  # always 1 for word pieces

    @classmethod
    @abstractmethod
    def load(cls, directory: Path, lengths: Lengths, rule: TextRule) -> Self:
        """Load a tokeniser from its file in a directory.

        Raises:
            OSError, ValueError: the file cannot be read or parsed.
        """

    @abstractmethod
    def fits(self, terms: int) -> bool:
        """Return whether its ids match an embedding table of this size."""

    @abstractmethod
    def query(self, text: str) -> list[int]:
        """Return the ids of a raw conclusion or title."""

    @abstractmethod
    def read(self, text: str) -> list[Any]:
        """Return the tokens of a raw premise that the network reads: words, or word-piece ids."""

    @abstractmethod
    def ids(self, read: list[Any]) -> list[int]:
        """Convert the tokens returned by `read` to ids."""

    @abstractmethod
    def terms(self, ids: list[int]) -> list[str]:
        """Return the words or word pieces of ids."""

    @abstractmethod
    def dumps(self) -> bytes:
        """Return the content of its file."""

    def premise(self, text: str) -> list[int]:
        """Return the ids of a raw premise."""
        return self.ids(self.read(text))

    def settings(self) -> dict[str, Any]:
        """Return its entries of a checkpoint's config.json."""
        return {"lengths": asdict(self.lengths)}


class WordTokeniser(Tokeniser):
    """Tokeniser of the word networks."""

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
        """Return its config entries; text rule 1 has no entry."""
        return super().settings() | ({} if self.rule == 1 else {"text_rule": self.rule})

    def fits(self, terms: int) -> bool:
        """Return whether the embedding table has exactly these ids."""
        return terms == len(self.vocabulary)

    def query(self, text: str) -> list[int]:
        """Return the word ids of a conclusion or title."""
        return self.vocabulary.ids(query_words(text, self.rule)[: self.lengths.query])

    def read(self, text: str) -> list[str]:
        """Return the words of a premise, interned to save memory."""
        return [sys.intern(word) for word in beginning(text, self.lengths.premise, partial(premise_words, rule=self.rule))]

    def ids(self, read: list[str]) -> list[int]:
        """Return the ids of words."""
        return self.vocabulary.ids(read)

    def terms(self, ids: list[int]) -> list[str]:
        """Return the words of ids; unknown ids give (unknown)."""
        return [self.vocabulary.term(token_id) for token_id in ids]

    def dumps(self) -> bytes:
        """Return the vocabulary as text."""
        return self.vocabulary.dumps().encode()


class PieceTokeniser(Pieces, Tokeniser):
    """Tokeniser of the BERT networks."""

    def __init__(self, tokenizer: Tokenizer, lengths: Lengths) -> None:
        super().__init__(tokenizer)
        self.lengths = lengths
        self.reading = f"{lengths.premise} pieces of {hashlib.sha256(self.dumps()).hexdigest()}"

    @classmethod
    def load(cls, directory: Path, lengths: Lengths, rule: TextRule = 1) -> PieceTokeniser:
        """Load BERT's tokenizer; it normalises Unicode itself, so the text rule does not apply.

        Raises:
            OSError, ValueError: the file cannot be read or parsed.
        """
        return cls(load_tokenizer(directory), lengths)

    def query(self, text: str) -> list[int]:
        """Return the word-piece ids of a conclusion or title."""
        return self._ids(drop_urls(text), self.lengths.query)

    def read(self, text: str) -> list[int]:
        """Return the word-piece ids of a premise."""
        return beginning(text, self.lengths.premise, lambda prefix: self._ids(drop_urls(prefix), self.lengths.premise))

    def ids(self, read: list[int]) -> list[int]:
        """Return the ids unchanged."""
        return read

    def terms(self, ids: list[int]) -> list[str]:
        """Return the word pieces; continuations start with ##."""
        return [str(self._tokenizer.id_to_token(token_id)) for token_id in ids]

    def cut(self, text: str, most: int) -> str:
        """Truncate a text after its first `most` word pieces."""
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return text if len(offsets) <= most else text[: offsets[most - 1][1]]

    def _ids(self, text: str, most: int) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids[:most]
        return ids


TOKENISERS: dict[Reads, type[Tokeniser]] = {"words": WordTokeniser, "pieces": PieceTokeniser}  # by input unit
