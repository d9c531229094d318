"""A collection as the words that an enricher gives its documents, in parts that are kept: a killed process goes on there.

part-*.msgpack  of so many documents each, in their order: for each of them its words with their frequencies
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import msgspec
import torch

from submission.disk.kept import Kept
from submission.enrichment.checkpoint import EnricherCheckpoint
from submission.enrichment.read import read
from submission.progress import progress

log = logging.getLogger(__name__)

TOGETHER = 256  # documents of a part: a kill costs so many, and no more of them are in memory
TRIED = 16  # documents, spread over all, by which time and size are estimated
LONG = 60  # minutes

Words = Mapping[str, int]


class Enriched:
    """The words of documents that are numbered; each part is read when it is asked for."""

    def __init__(self, documents: int, part: Callable[[int], list[Words]]) -> None:
        """From what gives the words of a part by its number."""
        self._documents, self._part = documents, part

    def between(self, start: int, end: int) -> list[Words]:
        """The words of the documents with these numbers, the last excluded."""
        first, last = start // TOGETHER, -(-min(end, self._documents) // TOGETHER)
        found = list(chain.from_iterable(self._part(number) for number in range(first, last)))
        return found[start - first * TOGETHER : end - first * TOGETHER]


def enrich(
    texts: Callable[[int, int], Sequence[str]], documents: int, opened: EnricherCheckpoint, device: torch.device, kept: Kept
) -> Enriched:
    """The words of all documents, made unless they are kept. Says before how long it will take, and how large it will be.

    Args:
        texts: gives those of the documents from one number to another, the last excluded.
        documents: how many there are.
        opened: the enricher.
        device: where to compute.
        kept: where parts are kept; it must be of these very arguments.

    Raises:
        OutputError: that place cannot be written.
    """

    def part(number: int) -> bytes:
        start = number * TOGETHER
        return kept.content(_name(number), lambda: _packed(texts(start, start + TOGETHER), opened, device))

    missing = [number for number in range(-(-documents // TOGETHER)) if _name(number) not in kept]
    if missing:
        sizes = [min(TOGETHER, documents - number * TOGETHER) for number in missing]
        tried = sorted({place * documents // TRIED for place in range(TRIED)})
        _tell([text for number in tried for text in texts(number, number + 1)], sum(sizes), opened, device)
        for number in progress(missing, opened.enricher.name(), "documents", sizes):
            part(number)
    return Enriched(documents, lambda number: msgspec.msgpack.decode(part(number), type=list[dict[str, int]]))


def words_of(texts: Sequence[str], opened: EnricherCheckpoint, device: torch.device) -> list[Words]:
    """The words of each text, computed together."""
    return [opened.enricher.frequencies(passages) for passages in read(texts, opened, device)]


def _packed(texts: Sequence[str], opened: EnricherCheckpoint, device: torch.device) -> bytes:
    return msgspec.msgpack.encode(words_of(texts, opened, device))


def _name(number: int) -> str:
    return f"part-{number:06}.msgpack"


def _tell(tried: Sequence[str], documents: int, opened: EnricherCheckpoint, device: torch.device) -> None:
    """Log how long so many documents will take and how large they will be, by some that are tried."""
    start = time.monotonic()
    size = len(_packed(tried, opened, device))
    minutes, megabytes = ((time.monotonic() - start) / 60 * documents / len(tried), size / 1e6 * documents / len(tried))
    name = opened.enricher.name()
    log.info("%s: %d documents to enrich, about %.1f minutes and %.1f MB", name, documents, minutes, megabytes)
    if minutes > LONG and device.type == "cpu":
        log.warning("%s: that is long; a GPU is much faster, and --work DIR keeps what is finished", name)
