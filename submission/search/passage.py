"""The passage of a text that answers a question best: whole sentences with the rarest of the question's words."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from submission.text.characters import INVISIBLE, combining
from submission.text.normalise import APOSTROPHES
from submission.text.terms import Terms

LONGEST = 60  # words of a passage
SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*(?=\s)|\n")
WRITTEN = re.compile(r"\S+")


@cache
def word() -> re.Pattern[str]:
    """The pattern of a word that the index makes a term of, in the text as written, with the accents and joints within it."""
    joints = f"{INVISIBLE}{combining()}"
    return re.compile(rf"[^\W_]+(?:[{APOSTROPHES}{joints}]+[^\W_]+)*[{joints}]*")


class Span(NamedTuple):
    """A place in a text."""

    start: int
    end: int


class Passage(NamedTuple):
    """A part of a text, and which words of the whole text are the question's."""

    place: Span
    marks: list[Span]

    @property
    def within(self) -> list[Span]:
        """The marks in the part."""
        return [mark for mark in self.marks if self.place.start <= mark.start < self.place.end]


def best_passage(text: str, weights: Mapping[str, float], terms: Terms) -> Passage:
    """The window of sentences whose different terms of the question weigh most together.

    A window begins with a sentence that has one of these terms, and is as many sentences as fit in 60 words; a longer one is
    cut. Of windows that weigh the same the one with more marked words is taken, then the first; in a text without any of the
    terms, the beginning.

    Args:
        text: of a document.
        weights: the question's terms, each with what it is worth; a rare one more.
        terms: how the index makes terms of words.
    """
    found = [(Span(*match.span()), own) for match in word().finditer(text) if (own := weights.keys() & terms.of(match[0]))]
    starts, windows = [mark.start for mark, _ in found], list(_windows(text))

    def within(place: Span) -> list[set[str]]:
        return [own for _, own in found[bisect_left(starts, place.start) : bisect_left(starts, place.end)]]

    def worth(window: Span) -> tuple[float, int]:
        terms_of_words = within(window)
        return sum(weights[term] for term in sorted(set().union(*terms_of_words))), len(terms_of_words)

    candidates = [window for first, window in windows if within(first)] or [window for _, window in windows[:1]]
    return Passage(max(candidates, key=worth, default=Span(0, len(text))), [mark for mark, _ in found])


def _windows(text: str) -> Iterator[tuple[Span, Span]]:
    """Each sentence, and as many from it on as fit."""
    sentences = list(_sentences(text))
    end = size = 0  # of the window
    for first, words in sentences:
        while end < len(sentences) and size + sentences[end][1] <= LONGEST:
            size += sentences[end][1]
            end += 1
        yield first, Span(first.start, sentences[end - 1][0].end)
        size -= words


def _sentences(text: str) -> Iterator[tuple[Span, int]]:
    """The sentences and how many words each has, at most LONGEST."""
    ends = [match.end() for match in SENTENCE_END.finditer(text)]
    for start, end in pairwise([0, *ends, len(text)]):
        words = [match.span() for match in WRITTEN.finditer(text, start, end)]
        for first in range(0, len(words), LONGEST):
            part = words[first : first + LONGEST]
            yield Span(part[0][0], part[-1][1]), len(part)
