"""Which words of a passage matter: those that share a stem with a reference, stop words apart (Hollatz 2022, 3.2)."""

from __future__ import annotations

import re
from itertools import chain

from submission.text.terms import Terms

WORD = re.compile(r"[^\W_]+")


class Labels:
    """Words by their stems, each stemmed once."""

    def __init__(self) -> None:
        """Create an empty cache of stems."""
        self._stems = Terms("porter")

    def words(self, passage: str, reference: str) -> list[str]:
        """The distinct words of a passage that matter, lower-cased, ascending."""
        wanted = {*chain.from_iterable(self._stems[word.encode()] for word in WORD.findall(reference.lower()))}
        found = {*WORD.findall(passage.lower())} if wanted else set()
        return sorted(word for word in found if not wanted.isdisjoint(self._stems[word.encode()]))
