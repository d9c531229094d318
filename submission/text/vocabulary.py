"""Map terms to ids: 0 padding, 1 unknown, terms from 2."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from pathlib import Path

from submission.text.token_ids import FIRST, UNKNOWN


class Vocabulary:
    """An ordered list of distinct terms; the term at index i has id i + 2."""

    def __init__(self, terms: Iterable[str]) -> None:
        self.terms = tuple(terms)
        self._ids = {term: token_id for token_id, term in enumerate(self.terms, FIRST)}
        if len(self._ids) != len(self.terms) or any(term.split() != [term] for term in self.terms):
            raise ValueError("vocabulary terms must be distinct and must not contain whitespace")

    def __len__(self) -> int:
        """Return the number of ids including padding and unknown, i.e. the rows of an embedding table."""
        return len(self.terms) + FIRST

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the ids of words, UNKNOWN for words not in the vocabulary."""
        return list(map(self._ids.get, words, repeat(UNKNOWN)))

    def term(self, number: int) -> str:
        """Return the term of an id, or (unknown)."""
        return self.terms[number - FIRST] if number >= FIRST else "(unknown)"

    def dumps(self) -> str:
        """Return the terms, one per line, in id order."""
        return "".join(f"{term}\n" for term in self.terms)

    @classmethod
    def load(cls, file: Path) -> Vocabulary:
        """Load a vocabulary from a text file.

        Raises:
            OSError, UnicodeDecodeError, ValueError: it cannot be read, or terms are repeated or contain whitespace.
        """
        return cls(file.read_text(encoding="utf-8").split("\n")[:-1])
