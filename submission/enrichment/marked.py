"""A text in pieces: where an enricher finds parts of an argument, and what is between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from submission.enrichment.base import Word


class Piece(NamedTuple):
    """Words that follow upon each other."""

    text: str  # with the blanks around them, where they are of no part
    part: str  # of an argument; "" of none


def pieces(text: str, words: Sequence[Word], part: Callable[[Word], str]) -> list[Piece]:
    """Return a passage's whole text, divided by the parts that its words belong to."""
    found: list[Piece] = []
    end = 0
    for name, group in groupby(words, key=part):
        if name:
            own = list(group)
            found += [Piece(text[end : own[0].start], ""), Piece(text[own[0].start : own[-1].end], name)]
            end = own[-1].end
    return [piece for piece in [*found, Piece(text[end:], "")] if piece.text]
