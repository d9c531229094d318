"""Terms ↔ ids: 0 is padding, 1 any unknown term, the vocabulary starts at 2."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from pathlib import Path

from submission.text.ids import UNKNOWN

FIRST = 2


class Vocabulary:
    """An ordered list of distinct terms; term number i has id i + 2."""

    def __init__(self, terms: Iterable[str]) -> None:
        self.terms = tuple(terms)
        self._ids = {term: number for number, term in enumerate(self.terms, FIRST)}
        if len(self._ids) != len(self.terms) or any(term.split() != [term] for term in self.terms):
            raise ValueError("a vocabulary's terms must be distinct and hold no blanks")

    def __len__(self) -> int:
        """The number of ids, padding and unknown included: the rows of an embedding table."""
        return len(self.terms) + FIRST

    def ids(self, words: Iterable[str]) -> list[int]:
        """The ids of words, UNKNOWN where the vocabulary does not have one."""
        return list(map(self._ids.get, words, repeat(UNKNOWN)))

    def term(self, number: int) -> str:
        """The term of an id; (unknown) for those of none."""
        return self.terms[number - FIRST] if number >= FIRST else "(unknown)"

    def dumps(self) -> str:
        """The terms, one a line, in the order of their ids."""
        return "".join(f"{term}\n" for term in self.terms)

    @classmethod
    def load(cls, file: Path) -> Vocabulary:
        """Read a file of what dumps gives. Raises OSError, UnicodeDecodeError, ValueError."""
        return cls(file.read_text(encoding="utf-8").split("\n")[:-1])
