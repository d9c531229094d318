"""Highlighting of a document's words by DeepCT weight, or of the claims and premises that TARGER tags."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from submission.models.enricher import TokenAnnotation
from submission.retrieval.fields import select_texts
from submission.systems.execution import Execution, Stage
from submission.systems.lexical import LexicalStage
from submission.text.normalisation import URL

WEIGHT_LEVELS = 5


class Highlight(NamedTuple):
    """A character span with a label: claim, premise, or a weight level (weight-1 to weight-5)."""

    start: int
    end: int
    label: str


def compute_highlights(stage: Stage, execution: Execution, docno: str) -> list[Highlight]:
    """Compute the highlights of a document's premise; return [] if the stage has no enricher."""
    if not isinstance(stage, LexicalStage) or stage.enrichment is None:
        return []
    fields, document = stage.load_checkpoint(execution.checkpoints).index.fields, execution.documents.read_texts({docno})
    enricher = stage.enrichment.load_checkpoint(execution.checkpoints).network
    [text], [premise] = select_texts(document, fields), document["premise"]
    located = list(locate_words(text, stage.enrichment.annotate(execution, fields, document)))
    if enricher.component_types:
        by_component = groupby(located, key=lambda word: enricher.get_component_type(word[2]))
        groups = ((component, list(group)) for component, group in by_component if component)
        highlights = [Highlight(group[0][0], group[-1][1], component) for component, group in groups]
    else:
        max_weight = max((word.weight for _, _, word in located), default=0.0)
        highlights = [
            Highlight(start, end, f"weight-{math.ceil(WEIGHT_LEVELS * word.weight / max_weight)}")
            for start, end, word in located
            if word.weight > 0
        ]
    premise_start = len(text) - len(premise)  # the text may start with the conclusion
    return [
        Highlight(max(start - premise_start, 0), end - premise_start, label)
        for start, end, label in highlights
        if end > premise_start
    ]


def locate_words(text: str, passages: list[tuple[str, list[TokenAnnotation]]]) -> Iterator[tuple[int, int, TokenAnnotation]]:
    """Yield each word of the passages with its start and end in the text; URLs of the text may be missing from the passages."""
    end, without_urls = 0, URL.sub(lambda url: " " * len(url[0]), text)
    for passage, words in passages:
        start = text.find(passage, end)
        for word in words:
            surface = passage[word.start : word.end]
            position = start + word.start if start >= 0 else without_urls.find(surface, end)
            if position >= 0:
                end = position + len(surface)
                yield position, end, word
