"""Snippet extraction: the sentences of a text with the rarest query terms."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from submission.text.index_terms import TermAnalyser
from submission.text.normalisation import APOSTROPHES, INVISIBLE_CHARACTERS, combining_characters
from submission.text.passages import SENTENCE_END

MAX_WORDS = 60
WORD = re.compile(r"\S+")


@cache
def compile_term_pattern() -> re.Pattern[str]:
    """Compile the pattern of a word in raw text; words may contain apostrophes and combining characters."""
    joints = f"{INVISIBLE_CHARACTERS}{combining_characters()}"
    return re.compile(rf"[^\W_]+(?:[{APOSTROPHES}{joints}]+[^\W_]+)*[{joints}]*")


class Span(NamedTuple):
    """A character span."""

    start: int
    end: int


class Snippet(NamedTuple):
    """A span of a text, and all query-term matches in the text."""

    span: Span
    matches: list[Span]

    @property
    def visible_matches(self) -> list[Span]:
        """Matches inside the span."""
        return [match for match in self.matches if self.span.start <= match.start < self.span.end]


def extract_snippet(text: str, weights: Mapping[str, float], analyser: TermAnalyser) -> Snippet:
    """Return the window of sentences with the highest total weight of distinct query terms.

    A window starts with a sentence that contains a query term and extends over as many sentences as fit in MAX_WORDS words;
    longer sentences are split. Ties are broken by the number of matches, then by position. If there is no match, the snippet is
    the beginning of the text.
    """
    words = compile_term_pattern().finditer(text)
    matches = [(Span(*word.span()), terms) for word in words if (terms := weights.keys() & analyser.analyse(word[0]))]
    starts, windows = [span.start for span, _ in matches], list(_windows(text))

    def get_matched_terms(window: Span) -> list[set[str]]:
        first, end = bisect_left(starts, window.start), bisect_left(starts, window.end)
        return [terms for _, terms in matches[first:end]]

    def score(window: Span) -> tuple[float, int]:
        matched_terms = get_matched_terms(window)
        return sum(weights[term] for term in sorted(set().union(*matched_terms))), len(matched_terms)

    candidates = [window for first, window in windows if get_matched_terms(first)] or [window for _, window in windows[:1]]
    return Snippet(max(candidates, key=score, default=Span(0, len(text))), [span for span, _ in matches])


def _windows(text: str) -> Iterator[tuple[Span, Span]]:
    """Yield each sentence and the window that starts with it."""
    sentences = list(_sentences(text))
    end = word_count = 0  # of the window
    for first, words in sentences:
        while end < len(sentences) and word_count + sentences[end][1] <= MAX_WORDS:
            word_count += sentences[end][1]
            end += 1
        yield first, Span(first.start, sentences[end - 1][0].end)
        word_count -= words


def _sentences(text: str) -> Iterator[tuple[Span, int]]:
    """Yield sentences of at most MAX_WORDS words with their word counts."""
    ends = [match.end() for match in SENTENCE_END.finditer(text)]
    for start, end in pairwise([0, *ends, len(text)]):
        words = [match.span() for match in WORD.finditer(text, start, end)]
        for first in range(0, len(words), MAX_WORDS):
            chunk = words[first : first + MAX_WORDS]
            yield Span(chunk[0][0], chunk[-1][1]), len(chunk)
