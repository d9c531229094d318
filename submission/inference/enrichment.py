"""Enrichment of a whole collection in cached shards.

part-*.msgpack  word frequencies of each document of a shard, in order
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain

import msgspec
import numpy as np
import torch

from submission.engine.base import HERE, Engine, computed
from submission.engine.shards import Part, kept_parts
from submission.inference.batching import batches_of_positions
from submission.inference.device import in_batches, positions
from submission.inference.enricher_checkpoint import EnricherCheckpoint
from submission.models.enricher import Word
from submission.storage.artifact_store import Kept

log = logging.getLogger(__name__)

TOGETHER = 256  # documents per shard; an interruption repeats at most one shard
TRIED = 16  # minimum sample for the time and size estimate; larger jobs sample one document in SHARE, up to a shard
SHARE = 64
LONG = 60  # minutes

Words = Mapping[str, int]


class Enriched:
    """Word frequencies of numbered documents, loaded shard by shard."""

    def __init__(self, documents: int, part: Callable[[int], list[Words]]) -> None:
        """Create from a function that loads a shard by its number."""
        self._documents, self._part = documents, part

    def between(self, start: int, end: int) -> list[Words]:
        """Return the word frequencies of documents `start` to `end - 1`."""
        first_shard, end_shard = start // TOGETHER, -(-min(end, self._documents) // TOGETHER)
        frequencies = list(chain.from_iterable(map(self._part, range(first_shard, end_shard))))
        return frequencies[start - first_shard * TOGETHER : end - first_shard * TOGETHER]


def enrich(
    docnos: Sequence[str],
    texts: Callable[[Sequence[str]], Sequence[str]],
    opened: EnricherCheckpoint,
    device: torch.device,
    kept: Kept,
    engine: Engine = HERE,
) -> Enriched:
    """Enrich all documents, using the cache, after logging the expected time and size.

    Args:
        docnos: of all documents.
        texts: loads the texts of docnos, in order.
        opened: the enricher.
        device: device for each shard.
        kept: artifact store; its key must cover all other arguments.
        engine: computes the shards.

    Raises:
        OutputError: the cache cannot be written.
    """

    def make_shard(start: int) -> Part[Sequence[str]]:
        shard = docnos[start : start + TOGETHER]
        return Part(f"part-{start // TOGETHER:06}.msgpack", len(shard), partial(texts, shard), travels=True)

    shards, name = [make_shard(start) for start in range(0, len(docnos), TOGETHER)], opened.enricher.name()
    missing = sum(shard.size for shard in shards if shard.name not in kept)
    if missing:
        sample_size = max(TRIED, min(TOGETHER, missing // SHARE))
        rows = sorted({index * len(docnos) // sample_size for index in range(sample_size)})
        sample = texts([docnos[row] for row in rows])
        costs = computed(engine, partial(measure_sample, opened, device), sample, device)
        seconds, size = (cost * missing / len(sample) for cost in costs)
        _tell(name, missing, seconds / engine.workers(device) / 60, size / 1e6, device)
    content = kept_parts(partial(encode_shard, opened, device), shards, kept, engine, device, name, "documents")
    return Enriched(len(docnos), lambda index: msgspec.msgpack.decode(content(index), type=list[dict[str, int]]))


def encode_shard(opened: EnricherCheckpoint, device: torch.device, texts: Sequence[str]) -> bytes:
    """Encode the word frequencies of texts."""
    return msgspec.msgpack.encode(words_of(texts, opened, device))


def measure_sample(opened: EnricherCheckpoint, device: torch.device, texts: Sequence[str]) -> tuple[float, int]:
    """Measure the seconds and bytes that texts take."""
    start = time.monotonic()
    size = len(encode_shard(opened, device, texts))
    return time.monotonic() - start, size


def enrich_separately(opened: EnricherCheckpoint, device: torch.device, texts: Sequence[str]) -> list[Words]:
    """Enrich each text separately."""
    return [words_of([text], opened, device)[0] for text in texts]


def words_of(texts: Sequence[str], opened: EnricherCheckpoint, device: torch.device) -> list[Words]:
    """Enrich texts in one batch."""
    return [opened.enricher.frequencies(passages) for passages in read(texts, opened, device)]


def read(texts: Sequence[str], opened: EnricherCheckpoint, device: torch.device) -> list[list[list[Word]]]:
    """Annotate the passages of texts, longest first, so that GPU memory is allocated once."""
    enricher = opened.on(device)
    passages_by_text = [opened.reader.passages(text) for text in texts]
    passages = list(chain.from_iterable(passages_by_text))

    def compute(rows: np.ndarray) -> list[list[Word]]:
        return enricher.words([passages[row] for row in rows])

    most = max(positions(device, opened.precision), enricher.together)
    work = batches_of_positions([len(passage) for passage in passages], most)
    annotations: dict[int, list[Word]] = {}
    for rows, batch in zip(work, in_batches(compute, work, device, _chained), strict=True):
        annotations |= dict(zip(rows.tolist(), batch, strict=True))
    position = iter(range(len(passages)))
    return [[annotations[next(position)] for _ in text_passages] for text_passages in passages_by_text]


def _chained(batches: list[list[list[Word]]]) -> list[list[Word]]:
    return list(chain.from_iterable(batches))


def _tell(name: str, documents: int, minutes: float, megabytes: float, device: torch.device) -> None:
    """Log the expected time and size."""
    log.info("%s: %d documents to enrich, about %.1f minutes and %.1f MB", name, documents, minutes, megabytes)
    if minutes > LONG and device.type == "cpu":
        log.warning("%s: this will take long on a CPU; use a GPU, or --work DIR to resume after an interruption", name)
