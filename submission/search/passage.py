"""The passage of a text that answers a question best: whole sentences with the rarest of the question's words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from submission.text.normalise import APOSTROPHES
from submission.text.terms import Terms

LONGEST = 60  # words of a passage
SENTENCE = re.compile(r"\S.*?(?:[.!?…]+[\"'”’)\]]*(?=\s)|(?=\n)|\Z)", re.DOTALL)
WRITTEN = re.compile(r"\S+")
WORD = re.compile(rf"[^\W_]+(?:[{APOSTROPHES}]+[^\W_]+)*")  # what the index makes its terms of


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
        return [mark for mark in self.marks if self.place.start <= mark.start and mark.end <= self.place.end]


def best_passage(text: str, weights: Mapping[str, float], terms: Terms) -> Passage:
    """The window of sentences whose different terms of the question weigh most together.

    A window is as many sentences as fit in 60 words; a longer sentence is cut. Of windows that weigh the same the one with more
    marked words is taken, then the first; in a text without any of these terms, the beginning.

    Args:
        text: of a document.
        weights: the question's terms, each with what it is worth; a rare one more.
        terms: how the index makes terms of words.
    """
    found = [(Span(*match.span()), own) for match in WORD.finditer(text) if (own := weights.keys() & terms.of(match[0]))]

    def worth(window: Span) -> tuple[float, int]:
        within = [own for mark, own in found if window.start <= mark.start and mark.end <= window.end]
        return sum(weights[term] for term in sorted(set().union(*within))), len(within)

    return Passage(max(_windows(text), key=worth, default=Span(0, len(text))), [mark for mark, _ in found])


def _windows(text: str) -> Iterator[Span]:
    """From each sentence on as many as fit."""
    sentences = list(_sentences(text))
    for number, (first, size) in enumerate(sentences):
        last = first
        for sentence, words in sentences[number + 1 :]:
            size += words
            if size > LONGEST:
                break
            last = sentence
        yield Span(first.start, last.end)


def _sentences(text: str) -> Iterator[tuple[Span, int]]:
    """The sentences and how many words each has, at most LONGEST."""
    for sentence in SENTENCE.finditer(text):
        words = [match.span() for match in WRITTEN.finditer(text, *sentence.span())]
        for first in range(0, len(words), LONGEST):
            part = words[first : first + LONGEST]
            yield Span(part[0][0], part[-1][1]), len(part)
