"""Extract snippets and highlight the words of documents."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from aragorn.explanation import Highlight
from aragorn.pipeline.retrieval import Stage
from aragorn.pipeline.session import Collection
from aragorn.systems.lexical import LexicalStage
from aragorn.text.index_terms import TermAnalyser
from aragorn.text.normalisation import APOSTROPHES, INVISIBLE_CHARACTERS
from aragorn.text.passages import iter_sentences

MAX_SNIPPET_WORDS = 60


def compute_highlights(stage: Stage, collection: Collection, docno: str) -> list[Highlight]:
    """Compute the highlights of a premise; [] if the stage does not enrich documents."""
    if not isinstance(stage, LexicalStage) or stage.enrichment is None:
        return []
    fields = stage.load_checkpoint(collection.session.checkpoints).index.fields
    document = collection.documents.read_texts({docno})
    text, highlights = stage.enrichment.highlight(collection.session, fields, document)
    premise_start = len(text) - len(document["premise"].item())  # after the conclusion, if any
    return [
        Highlight(max(start - premise_start, 0), end - premise_start, label)
        for start, end, label in highlights
        if end > premise_start
    ]


@cache
def compile_word_pattern() -> re.Pattern[str]:
    """Compile the pattern of a word in raw text, with apostrophes and combining marks."""
    characters = map(chr, range(0x300, 0x20000))
    marks = "".join(mark for mark in characters if unicodedata.category(mark).startswith("M"))
    joints = f"{INVISIBLE_CHARACTERS}{marks}"
    return re.compile(rf"[^\W_]+(?:[{APOSTROPHES}{joints}]+[^\W_]+)*[{joints}]*")


class Span(NamedTuple):
    """Character span of a text; `end` is exclusive."""

    start: int
    end: int


class Snippet(NamedTuple):
    """Span of a text, and all query-term matches in the text."""

    span: Span
    matches: list[Span]

    @property
    def visible_matches(self) -> list[Span]:
        """Matches that start inside the span."""
        return [match for match in self.matches if self.span.start <= match.start < self.span.end]


def find_matches(
    text: str, weights: Mapping[str, float], analyser: TermAnalyser
) -> list[tuple[Span, set[str]]]:
    """Return the spans of the words of a text that yield query terms, with these terms."""
    words = compile_word_pattern().finditer(text)
    return [
        (Span(*word.span()), terms)
        for word in words
        if (terms := weights.keys() & analyser.analyse(word[0]))
    ]


def extract_snippet(text: str, weights: Mapping[str, float], analyser: TermAnalyser) -> Snippet:
    """Extract the window of sentences with the highest total weight of distinct query terms.

    A window starts with a sentence that contains a query term, and has as many sentences as fit in
    MAX_SNIPPET_WORDS words; longer sentences are split. Ties are broken by the number of matches,
    then by position. If there is no match, the snippet is the beginning of the text.
    """
    matches = find_matches(text, weights, analyser)
    starts = [span.start for span, _ in matches]
    windows = list(_iter_windows(text))

    def get_matched_terms(window: Span) -> list[set[str]]:
        first = bisect_left(starts, window.start)
        end = bisect_left(starts, window.end)
        return [terms for _, terms in matches[first:end]]

    def score(window: Span) -> tuple[float, int]:
        matched_terms = get_matched_terms(window)
        distinct_terms = sorted(set().union(*matched_terms))
        return sum(weights[term] for term in distinct_terms), len(matched_terms)

    candidates = [window for first, window in windows if get_matched_terms(first)] or [
        window for _, window in windows[:1]
    ]
    return Snippet(
        max(candidates, key=score, default=Span(0, len(text))), [span for span, _ in matches]
    )


def _iter_windows(text: str) -> Iterator[tuple[Span, Span]]:
    """Yield each sentence and the window that starts with it."""
    sentences = [
        (Span(start, end), words) for start, end, words in iter_sentences(text, MAX_SNIPPET_WORDS)
    ]
    end = n_words = 0  # of the window
    for first, words in sentences:
        while end < len(sentences) and n_words + sentences[end][1] <= MAX_SNIPPET_WORDS:
            n_words += sentences[end][1]
            end += 1
        yield first, Span(first.start, sentences[end - 1][0].end)
        n_words -= words
