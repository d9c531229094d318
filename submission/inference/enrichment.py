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

from submission.engine.base import LOCAL_ENGINE, Engine, run_one
from submission.engine.shards import Shard, compute_shards
from submission.inference.batching import batch_by_tokens
from submission.inference.device import get_max_batch_tokens, map_batches
from submission.inference.enricher_checkpoint import EnricherCheckpoint
from submission.models.enricher import TokenAnnotation
from submission.storage.artifact_store import ArtifactStore

log = logging.getLogger(__name__)

TOGETHER = 256  # documents per shard; an interruption repeats at most one shard
MIN_SAMPLE_SIZE = 16  # minimum sample for the time and size estimate; larger jobs sample one document in SHARE, up to a shard
SAMPLE_INTERVAL = 64
LONG_MINUTES = 60  # minutes

WordFrequencies = Mapping[str, int]


class EnrichedCollection:
    """Word frequencies of numbered documents, loaded shard by shard."""

    def __init__(self, documents: int, part: Callable[[int], list[WordFrequencies]]) -> None:
        """Create from a function that loads a shard by its number."""
        self._documents, self._part = documents, part

    def get_word_frequencies(self, start: int, end: int) -> list[WordFrequencies]:
        """Return the word frequencies of documents `start` to `end - 1`."""
        first_shard, end_shard = start // TOGETHER, -(-min(end, self._documents) // TOGETHER)
        frequencies = list(chain.from_iterable(map(self._part, range(first_shard, end_shard))))
        return frequencies[start - first_shard * TOGETHER : end - first_shard * TOGETHER]


def enrich_collection(
    docnos: Sequence[str],
    load_texts: Callable[[Sequence[str]], Sequence[str]],
    checkpoint: EnricherCheckpoint,
    device: torch.device,
    kept: ArtifactStore,
    engine: Engine = LOCAL_ENGINE,
) -> EnrichedCollection:
    """Enrich all documents, using the cache, after logging the expected time and size.

    Args:
        docnos: of all documents.
        load_texts: loads the texts of docnos, in order.
        checkpoint: the enricher.
        device: device for each shard.
        kept: artifact store; its key must cover all other arguments.
        engine: computes the shards.

    Raises:
        OutputError: the cache cannot be written.
    """

    def make_shard(start: int) -> Shard[Sequence[str]]:
        shard = docnos[start : start + TOGETHER]
        return Shard(f"part-{start // TOGETHER:06}.msgpack", len(shard), partial(load_texts, shard), can_load_remotely=True)

    shards, name = [make_shard(start) for start in range(0, len(docnos), TOGETHER)], checkpoint.enricher.get_name()
    missing = sum(shard.unit_count for shard in shards if shard.file_name not in kept)
    if missing:
        sample_size = max(MIN_SAMPLE_SIZE, min(TOGETHER, missing // SAMPLE_INTERVAL))
        rows = sorted({index * len(docnos) // sample_size for index in range(sample_size)})
        sample = load_texts([docnos[row] for row in rows])
        costs = run_one(engine, partial(measure_sample, checkpoint, device), sample, device)
        seconds, size = (cost * missing / len(sample) for cost in costs)
        _log_estimate(name, missing, seconds / engine.worker_count(device) / 60, size / 1e6, device)
    content = compute_shards(partial(encode_shard, checkpoint, device), shards, kept, engine, device, name, "documents")
    return EnrichedCollection(len(docnos), lambda index: msgspec.msgpack.decode(content(index), type=list[dict[str, int]]))


def encode_shard(opened: EnricherCheckpoint, device: torch.device, texts: Sequence[str]) -> bytes:
    """Encode the word frequencies of texts."""
    return msgspec.msgpack.encode(enrich_texts(texts, opened, device))


def measure_sample(opened: EnricherCheckpoint, device: torch.device, texts: Sequence[str]) -> tuple[float, int]:
    """Measure the seconds and bytes that texts take."""
    start = time.monotonic()
    size = len(encode_shard(opened, device, texts))
    return time.monotonic() - start, size


def enrich_separately(opened: EnricherCheckpoint, device: torch.device, texts: Sequence[str]) -> list[WordFrequencies]:
    """Enrich each text separately."""
    return [enrich_texts([text], opened, device)[0] for text in texts]


def enrich_texts(texts: Sequence[str], opened: EnricherCheckpoint, device: torch.device) -> list[WordFrequencies]:
    """Enrich texts in one batch."""
    return [opened.enricher.compute_term_frequencies(passages) for passages in annotate_texts(texts, opened, device)]


def annotate_texts(texts: Sequence[str], opened: EnricherCheckpoint, device: torch.device) -> list[list[list[TokenAnnotation]]]:
    """Annotate the passages of texts, longest first, so that GPU memory is allocated once."""
    enricher = opened.enricher_on(device)
    passages_by_text = [opened.tokeniser.split(text) for text in texts]
    passages = list(chain.from_iterable(passages_by_text))

    def compute(rows: np.ndarray) -> list[list[TokenAnnotation]]:
        return enricher.annotate([passages[row] for row in rows])

    most = max(get_max_batch_tokens(device, opened.precision), enricher.min_batch_tokens)
    work = batch_by_tokens([len(passage) for passage in passages], most)
    annotations: dict[int, list[TokenAnnotation]] = {}
    for rows, batch in zip(work, map_batches(compute, work, device, _concatenate), strict=True):
        annotations |= dict(zip(rows.tolist(), batch, strict=True))
    position = iter(range(len(passages)))
    return [[annotations[next(position)] for _ in text_passages] for text_passages in passages_by_text]


def _concatenate(batches: list[list[list[TokenAnnotation]]]) -> list[list[TokenAnnotation]]:
    return list(chain.from_iterable(batches))


def _log_estimate(name: str, documents: int, minutes: float, megabytes: float, device: torch.device) -> None:
    """Log the expected time and size."""
    log.info("%s: %d documents to enrich, about %.1f minutes and %.1f MB", name, documents, minutes, megabytes)
    if minutes > LONG_MINUTES and device.type == "cpu":
        log.warning("%s: this will take long on a CPU; use a GPU, or --cache-dir DIR to resume after an interruption", name)
