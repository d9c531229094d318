"""Extract snippets and highlight the words of documents."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from aragorn.pipeline.retrieval import Stage
from aragorn.pipeline.session import Collection
from aragorn.systems.lexical import LexicalStage
from aragorn.text.index_terms import TermAnalyser, select_texts
from aragorn.text.normalisation import (
    APOSTROPHES,
    INVISIBLE_CHARACTERS,
    URL,
    list_combining_characters,
)
from aragorn.text.passages import iter_sentences

if TYPE_CHECKING:
    from aragorn.models.taggers import TokenAnnotation

WEIGHT_LEVELS = 5
MAX_SNIPPET_WORDS = 60


class Highlight(NamedTuple):
    """Character span with a label: claim, premise, or a weight level (weight-1 to weight-5)."""

    start: int
    end: int
    label: str


def compute_highlights(stage: Stage, collection: Collection, docno: str) -> list[Highlight]:
    """Compute the highlights of a premise; [] if the stage does not enrich documents."""
    if not isinstance(stage, LexicalStage) or stage.enrichment is None:
        return []
    session = collection.session
    fields = stage.load_checkpoint(session.checkpoints).index.fields
    tagger = stage.enrichment.load_checkpoint(session.checkpoints).network
    document = collection.documents.read_texts({docno})
    [text] = select_texts(document, fields)
    [premise] = document["premise"]
    annotations = stage.enrichment.annotate(session, fields, document)
    located_words = list(locate_words(text, annotations))
    if tagger.component_types:
        by_component = groupby(located_words, key=lambda word: tagger.get_component_type(word[2]))
        groups = ((component, list(group)) for component, group in by_component if component)
        highlights = [
            Highlight(group[0][0], group[-1][1], component) for component, group in groups
        ]
    else:
        max_weight = max((word.weight for _, _, word in located_words), default=0.0)
        highlights = [
            Highlight(start, end, f"weight-{math.ceil(WEIGHT_LEVELS * word.weight / max_weight)}")
            for start, end, word in located_words
            if word.weight > 0
        ]
    premise_start = len(text) - len(premise)  # the text may start with the conclusion
    return [
        Highlight(max(start - premise_start, 0), end - premise_start, label)
        for start, end, label in highlights
        if end > premise_start
    ]


def locate_words(
    text: str, passages: list[tuple[str, list[TokenAnnotation]]]
) -> Iterator[tuple[int, int, TokenAnnotation]]:
    """Yield (start, end, annotation) for each word in `text`; passages may lack its URLs."""
    end = 0
    without_urls = URL.sub(lambda url: " " * len(url[0]), text)
    for passage, words in passages:
        start = text.find(passage, end)
        for word in words:
            surface = passage[word.start : word.end]
            position = start + word.start if start >= 0 else without_urls.find(surface, end)
            if position >= 0:
                end = position + len(surface)
                yield position, end, word


@cache
def compile_word_pattern() -> re.Pattern[str]:
    """Compile the pattern of a word in raw text, with apostrophes and combining characters."""
    joints = f"{INVISIBLE_CHARACTERS}{list_combining_characters()}"
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
    end = word_count = 0  # of the window
    for first, words in sentences:
        while end < len(sentences) and word_count + sentences[end][1] <= MAX_SNIPPET_WORDS:
            word_count += sentences[end][1]
            end += 1
        yield first, Span(first.start, sentences[end - 1][0].end)
        word_count -= words
