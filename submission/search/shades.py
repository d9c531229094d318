"""Shade the words of a document by DeepCT's weights or by TARGER's claims and premises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from submission.enrichment.base import Word
from submission.retrieval.terms import texts_of
from submission.systems.execution import Execution, Stage
from submission.systems.lexical import Lexical
from submission.text.normalise import URL

LEVELS = 5  # shades of a weight


class Shade(NamedTuple):
    """A place in a text, and how it is shaded: a part of an argument, or a level from 1 to LEVELS."""

    start: int
    end: int
    kind: str


def shades(stage: Stage, execution: Execution, docno: str) -> list[Shade]:
    """Compute the shades of a document's premise; none where the stage has no enrichment.

    Raises:
        CheckpointError: its checkpoint cannot be used.
    """
    if not isinstance(stage, Lexical) or stage.enrichment is None:
        return []
    fields, document = stage.opened(execution.checkpoints).index.fields, execution.documents.texts({docno})
    enricher = stage.enrichment.opened(execution.checkpoints).enricher
    [text], [premise] = texts_of(document, fields), document["premise"]
    places = list(places_of(text, stage.enrichment.read(execution, fields, document)))
    if enricher.parts:
        by_part = groupby(places, key=lambda place: enricher.part(place[2]))
        found = [Shade(own[0][0], own[-1][1], part) for part, group in by_part if part and (own := list(group))]
    else:
        largest = max((word.weight for _, _, word in places), default=0.0)
        levels = ((start, end, math.ceil(LEVELS * word.weight / largest)) for start, end, word in places if word.weight > 0)
        found = [Shade(start, end, f"s{level}") for start, end, level in levels]
    before = len(text) - len(premise)  # a conclusion may be read before it
    return [Shade(max(start - before, 0), end - before, kind) for start, end, kind in found if end > before]


def places_of(text: str, passages: list[tuple[str, list[Word]]]) -> Iterator[tuple[int, int, Word]]:
    """Locate the words of passages in the whole text. A passage may have been read without the URLs that are in it."""
    end, without_urls = 0, URL.sub(lambda url: " " * len(url[0]), text)
    for passage, words in passages:
        start = text.find(passage, end)
        for word in words:
            written = passage[word.start : word.end]
            place = start + word.start if start >= 0 else without_urls.find(written, end)
            if place >= 0:
                end = place + len(written)
                yield place, end, word
