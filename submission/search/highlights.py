"""Highlight a document's words by DeepCT weight, or its claims and premises found by TARGER."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from submission.models.enricher import Word
from submission.retrieval.fields import texts_of
from submission.systems.execution import Execution, Stage
from submission.systems.lexical import Lexical
from submission.text.normalisation import URL

LEVELS = 5


class Shade(NamedTuple):
    """A span with a label: claim, premise, or a weight level (weight-1 to weight-5)."""

    start: int
    end: int
    kind: str


def shades(stage: Stage, execution: Execution, docno: str) -> list[Shade]:
    """Return the highlights of a document's premise, [] if the stage has no enricher.

    Raises:
        CheckpointError: its checkpoint cannot be loaded.
    """
    if not isinstance(stage, Lexical) or stage.enrichment is None:
        return []
    fields, document = stage.opened(execution.checkpoints).index.fields, execution.documents.texts({docno})
    enricher = stage.enrichment.opened(execution.checkpoints).enricher
    [text], [premise] = texts_of(document, fields), document["premise"]
    located = list(places_of(text, stage.enrichment.read(execution, fields, document)))
    if enricher.parts:
        by_component = groupby(located, key=lambda located_word: enricher.part(located_word[2]))
        groups = ((component, list(group)) for component, group in by_component if component)
        highlights = [Shade(group[0][0], group[-1][1], component) for component, group in groups]
    else:
        max_weight = max((word.weight for _, _, word in located), default=0.0)
        levels = ((start, end, math.ceil(LEVELS * word.weight / max_weight)) for start, end, word in located if word.weight > 0)
        highlights = [Shade(start, end, f"weight-{level}") for start, end, level in levels]
    premise_start = len(text) - len(premise)  # the text may start with the conclusion
    shifted = ((start - premise_start, end - premise_start, label) for start, end, label in highlights)
    return [Shade(max(start, 0), end, label) for start, end, label in shifted if end > 0]


def places_of(text: str, passages: list[tuple[str, list[Word]]]) -> Iterator[tuple[int, int, Word]]:
    """Yield the words of passages with their positions in the whole text, whose URLs the passages may lack."""
    end, without_urls = 0, URL.sub(lambda url: " " * len(url[0]), text)
    for passage, words in passages:
        start = text.find(passage, end)
        for word in words:
            surface = passage[word.start : word.end]
            position = start + word.start if start >= 0 else without_urls.find(surface, end)
            if position >= 0:
                end = position + len(surface)
                yield position, end, word
