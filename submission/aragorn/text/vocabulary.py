"""Map the terms of a vocabulary to ids."""

from collections.abc import Iterable
from itertools import repeat
from pathlib import Path
from typing import Literal, Self

PADDING_ID = 0
UNKNOWN_ID = 1
FIRST_TERM_ID = 2  # id of a vocabulary's first term

InputUnit = Literal["words", "pieces"]  # units that a network reads


class Vocabulary:
    """Ordered list of distinct terms; the term at index i has id i + FIRST_TERM_ID."""

    def __init__(self, terms: Iterable[str]) -> None:
        self.terms = tuple(terms)
        self._ids = {term: token_id for token_id, term in enumerate(self.terms, FIRST_TERM_ID)}
        if len(self._ids) != len(self.terms):
            raise ValueError(
                f"duplicate terms in the vocabulary: {len(self.terms) - len(self._ids)}; expected "
                "distinct terms"
            )
        if invalid_terms := [term for term in self.terms if term.split() != [term]]:
            raise ValueError(
                f"invalid vocabulary term {invalid_terms[0]!r}; expected a term without whitespace"
            )

    def __len__(self) -> int:
        """Return the number of ids, with padding and unknown words: rows of an embedding."""
        return len(self.terms) + FIRST_TERM_ID

    def get_ids(self, words: Iterable[str]) -> list[int]:
        """Return the ids of words; UNKNOWN_ID for words not in the vocabulary."""
        return list(map(self._ids.get, words, repeat(UNKNOWN_ID)))

    def get_term(self, token_id: int) -> str:
        """Return the term of an id; "(unknown)" for the ids of padding and unknown words."""
        return self.terms[token_id - FIRST_TERM_ID] if token_id >= FIRST_TERM_ID else "(unknown)"

    def to_text(self) -> str:
        return "".join(f"{term}\n" for term in self.terms)

    @classmethod
    def load(cls, path: Path) -> Self:
        return cls(path.read_text(encoding="utf-8").split("\n")[:-1])
