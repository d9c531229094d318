"""A collection as the words that an enricher gives its documents, in parts that are kept: a killed process goes on there.

part-*.msgpack  of so many documents each, in their order: for each of them its words with their frequencies
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import msgspec
import torch

from submission.disk.kept import Kept
from submission.engine.engine import HERE, Engine, computed
from submission.engine.parts import Part, kept_parts
from submission.enrichment.checkpoint import EnricherCheckpoint
from submission.enrichment.read import read

log = logging.getLogger(__name__)

TOGETHER = 256  # documents of a part: a kill costs so many, and no more of them are in memory
TRIED = 16  # documents at least, spread over all, by which time and size are estimated: of many, one in SHARE, up to a part
SHARE = 64
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
    docnos: Sequence[str],
    texts: Callable[[Sequence[str]], Sequence[str]],
    opened: EnricherCheckpoint,
    device: torch.device,
    kept: Kept,
    engine: Engine = HERE,
) -> Enriched:
    """The words of all documents, made unless they are kept. Says before how long it will take, and how large it will be.

    Args:
        docnos: of all documents.
        texts: gives those of some docnos, in their order.
        opened: the enricher.
        device: what each part is computed on.
        kept: where parts are kept; it must be of these very arguments.
        engine: where they are computed.

    Raises:
        OutputError: that place cannot be written.
    """

    def part(start: int) -> Part[Sequence[str]]:
        some = docnos[start : start + TOGETHER]
        return Part(f"part-{start // TOGETHER:06}.msgpack", len(some), partial(texts, some), travels=True)

    parts, name = [part(start) for start in range(0, len(docnos), TOGETHER)], opened.enricher.name()
    missing = sum(part.size for part in parts if part.name not in kept)
    if missing:
        tried = max(TRIED, min(TOGETHER, missing // SHARE))
        some = texts([docnos[number] for number in sorted({place * len(docnos) // tried for place in range(tried)})])
        seconds, size = (one * missing / len(some) for one in computed(engine, Tried(opened, device), some, device))
        _tell(name, missing, seconds / engine.workers(device) / 60, size / 1e6, device)
    content = kept_parts(Packed(opened, device), parts, kept, engine, device, name, "documents")
    return Enriched(len(docnos), lambda number: msgspec.msgpack.decode(content(number), type=list[dict[str, int]]))


@dataclass(frozen=True)
class Packed:
    """Computes a part as the content of a file, in any process."""

    opened: EnricherCheckpoint
    device: torch.device

    def __call__(self, texts: Sequence[str]) -> bytes:
        """The words of some texts."""
        return msgspec.msgpack.encode(words_of(texts, self.opened, self.device))


@dataclass(frozen=True)
class Tried:
    """Measures a part, in any process."""

    opened: EnricherCheckpoint
    device: torch.device

    def __call__(self, texts: Sequence[str]) -> tuple[float, int]:
        """Seconds that some texts take, and bytes of their words."""
        start = time.monotonic()
        size = len(Packed(self.opened, self.device)(texts))
        return time.monotonic() - start, size


@dataclass(frozen=True)
class EachAlone:
    """Computes the words of texts, each independent of the others, in any process."""

    opened: EnricherCheckpoint
    device: torch.device

    def __call__(self, texts: Sequence[str]) -> list[Words]:
        """Compute the words of each text."""
        return [words_of([text], self.opened, self.device)[0] for text in texts]


def words_of(texts: Sequence[str], opened: EnricherCheckpoint, device: torch.device) -> list[Words]:
    """The words of each text, computed together."""
    return [opened.enricher.frequencies(passages) for passages in read(texts, opened, device)]


def _tell(name: str, documents: int, minutes: float, megabytes: float, device: torch.device) -> None:
    """Log how long so many documents will take and how large they will be."""
    log.info("%s: %d documents to enrich, about %.1f minutes and %.1f MB", name, documents, minutes, megabytes)
    if minutes > LONG and device.type == "cpu":
        log.warning("%s: that is long; a GPU is much faster, and --work DIR keeps what is finished", name)
