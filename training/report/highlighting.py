"""Highlight a document's terms by frequency, or its claims and premises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from submission.models.enricher import Word
from submission.systems.enrichment import Enrichment
from submission.systems.execution import Execution
from submission.systems.explanation import Piece
from submission.systems.lexical import Lexical
from submission.text.index_terms import Terms

LEVELS = 9


@dataclass(frozen=True)
class Marked:
    """A document's indexed text, segmented into claims, premises and other text."""

    system: str
    docno: str
    pieces: list[Piece]


class Span(NamedTuple):
    """A text span with its term frequency and shade level (0: none)."""

    text: str
    frequency: int
    level: int


@dataclass(frozen=True)
class Shaded:
    """A document's spans without and with enrichment."""

    system: str
    docno: str
    before: list[Span]
    after: list[Span]


def marked(system: str, stage: Lexical, enrichment: Enrichment, execution: Execution, docno: str) -> Marked:
    """Segment a document by the enrichment's claims and premises."""
    fields = stage.opened(execution.checkpoints).index.fields
    return Marked(system, docno, enrichment.marked(execution, fields, execution.documents.texts({docno})))


def shaded(system: str, stage: Lexical, enrichment: Enrichment, execution: Execution, docno: str) -> Shaded:
    """Shade a document's words by index term frequency, without and with enrichment."""
    settings = stage.opened(execution.checkpoints).index
    passages = enrichment.read(execution, settings.fields, execution.documents.texts({docno}))
    terms = Terms(settings.stemmer)
    frequencies = enrichment.opened(execution.checkpoints).enricher.frequencies([words for _, words in passages])
    original = Counter(chain.from_iterable(terms.of(text[word.start : word.end]) for text, words in passages for word in words))
    enriched: Counter[str] = Counter()
    for token, frequency in frequencies.items():
        enriched.update(dict.fromkeys(terms.of(token), frequency))
    return Shaded(system, docno, _spans(passages, original, terms), _spans(passages, enriched, terms))


def _spans(passages: Sequence[tuple[str, Sequence[Word]]], counts: Counter[str], terms_of: Terms) -> list[Span]:
    max_frequency, spans = max(counts.values(), default=1), []
    for text, words in passages:
        end = 0
        for word in words:
            frequency = sum(counts[term] for term in terms_of.of(text[word.start : word.end]))
            level = min(LEVELS, -(-LEVELS * frequency // max_frequency))
            spans.append(Span(text[end : word.start], 0, 0))
            spans.append(Span(text[word.start : word.end], frequency, level))
            end = word.end
        spans.append(Span(text[end:] + " ", 0, 0))
    return [span for span in spans if span.text]
