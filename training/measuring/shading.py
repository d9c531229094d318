"""A document's words shaded by how often the index counts them, as they are written and as an enrichment has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from submission.enrichment.base import Word
from submission.systems.enrichment import Enrichment
from submission.systems.execution import Execution
from submission.systems.lexical import Lexical
from submission.text.terms import Terms

LEVELS = 9  # shades


class Span(NamedTuple):
    """A piece of a text: how often the index counts its term, and its shade, 0 for none."""

    text: str
    frequency: int
    level: int


@dataclass(frozen=True)
class Shaded:
    """A document that a system lists, before and after."""

    system: str
    docno: str
    before: list[Span]
    after: list[Span]


def shaded(system: str, stage: Lexical, enrichment: Enrichment, execution: Execution, docno: str) -> Shaded:
    """A document as a stage's settings index its words, without and with its enrichment.

    Raises:
        CheckpointError: one cannot be opened.
    """
    settings = stage.opened(execution.checkpoints).index
    passages = enrichment.read(execution, settings.fields, execution.documents.texts({docno}))
    terms_of, words = Terms(settings.stemmer), [own for _, own in passages]
    frequencies = enrichment.opened(execution.checkpoints).enricher.frequencies(words)
    before = Counter(chain.from_iterable(terms_of.of(text[word.start : word.end]) for text, own in passages for word in own))
    after: Counter[str] = Counter()
    for one, frequency in frequencies.items():
        after.update(dict.fromkeys(terms_of.of(one), frequency))
    return Shaded(system, docno, _spans(passages, before, terms_of), _spans(passages, after, terms_of))


def _spans(passages: Sequence[tuple[str, Sequence[Word]]], counts: Counter[str], terms_of: Terms) -> list[Span]:
    largest, found = max(counts.values(), default=1), []
    for text, words in passages:
        end = 0
        for word in words:
            frequency = sum(counts[term] for term in terms_of.of(text[word.start : word.end]))
            found.append(Span(text[end : word.start], 0, 0))
            found.append(Span(text[word.start : word.end], frequency, min(LEVELS, -(-LEVELS * frequency // largest))))
            end = word.end
        found.append(Span(text[end:] + " ", 0, 0))
    return [span for span in found if span.text]
