"""Highlight a document's terms by frequency, or its claims and premises."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from aragorn.explanation import TextSpan
from aragorn.models.tagger import TokenAnnotation
from aragorn.systems.enrichment import Enrichment
from aragorn.systems.lexical import LexicalStage
from aragorn.text.index_terms import TermAnalyser
from aragorn_training.data.retrieval import DatasetRetrieval

SHADE_LEVELS = 9


@dataclass(frozen=True)
class MarkedDocument:
    """Text of a document, segmented into claims, premises and other text by the enrichment of
    `system`."""

    system: str
    docno: str
    segments: list[TextSpan]


class ShadedSpan(NamedTuple):
    """Text span with its term frequency and shade level, from 0 (no shade) to SHADE_LEVELS."""

    text: str
    frequency: int
    level: int


@dataclass(frozen=True)
class ShadedDocument:
    """Text of a document, shaded by term frequency without and with the enrichment of `system`."""

    system: str
    docno: str
    original_spans: list[ShadedSpan]
    enriched_spans: list[ShadedSpan]


def mark_components(
    system: str,
    stage: LexicalStage,
    enrichment: Enrichment,
    retrieval: DatasetRetrieval,
    docno: str,
) -> MarkedDocument:
    """Segment a document into the claims and premises that the enrichment tags, and other text."""
    fields = stage.load_checkpoint(retrieval.session.checkpoints).index.fields
    texts = retrieval.collection.documents.read_texts({docno})
    return MarkedDocument(
        system, docno, enrichment.get_component_spans(retrieval.session, fields, texts)
    )


def shade_terms(
    system: str,
    stage: LexicalStage,
    enrichment: Enrichment,
    retrieval: DatasetRetrieval,
    docno: str,
) -> ShadedDocument:
    """Shade a document's words by index term frequency, without and with enrichment."""
    settings = stage.load_checkpoint(retrieval.session.checkpoints).index
    passages = enrichment.annotate(
        retrieval.session, settings.fields, retrieval.collection.documents.read_texts({docno})
    )
    analyser = TermAnalyser(settings.stemmer)
    network = enrichment.load_checkpoint(retrieval.session.checkpoints).network
    frequencies = network.compute_word_frequencies([words for _, words in passages])
    surface_forms = (text[word.start : word.end] for text, words in passages for word in words)
    counts = Counter(chain.from_iterable(map(analyser.analyse, surface_forms)))
    enriched_counts: Counter[str] = Counter()
    for token, frequency in frequencies.items():
        enriched_counts.update(dict.fromkeys(analyser.analyse(token), frequency))
    return ShadedDocument(
        system,
        docno,
        _shade(passages, counts, analyser),
        _shade(passages, enriched_counts, analyser),
    )


def _shade(
    passages: Sequence[tuple[str, Sequence[TokenAnnotation]]],
    counts: Counter[str],
    analyser: TermAnalyser,
) -> list[ShadedSpan]:
    max_frequency = max(counts.values(), default=1)
    spans = []
    for text, words in passages:
        end = 0
        for word in words:
            frequency = sum(counts[term] for term in analyser.analyse(text[word.start : word.end]))
            level = min(SHADE_LEVELS, -(-SHADE_LEVELS * frequency // max_frequency))
            spans.append(ShadedSpan(text[end : word.start], 0, 0))
            spans.append(ShadedSpan(text[word.start : word.end], frequency, level))
            end = word.end
        spans.append(ShadedSpan(text[end:] + " ", 0, 0))
    return [span for span in spans if span.text]
