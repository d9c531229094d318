"""Split of a passage's text into argument components and the text between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from submission.enrichment.base import Word


class Piece(NamedTuple):
    """A contiguous span of a passage."""

    text: str  # includes surrounding whitespace if it is no component
    part: str  # claim or premise; "" if none


def pieces(text: str, words: Sequence[Word], part: Callable[[Word], str]) -> list[Piece]:
    """Split a passage's text into spans by argument component."""
    spans: list[Piece] = []
    end = 0
    for component, group in groupby(words, key=part):
        if component:
            tokens = list(group)
            spans += [Piece(text[end : tokens[0].start], ""), Piece(text[tokens[0].start : tokens[-1].end], component)]
            end = tokens[-1].end
    return [span for span in [*spans, Piece(text[end:], "")] if span.text]
