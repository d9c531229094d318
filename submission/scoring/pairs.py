"""Score pairs of ids in deterministic, cached chunks, by the strategy of each kind of network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from submission.disk.kept import Kept, array_of, npy
from submission.engine.engine import Engine, computed
from submission.engine.parts import Part, kept_parts
from submission.rankers.base import Ranker, SiameseRanker, TopicRanker
from submission.scoring.batches import Padded, PaddedPairs, batches
from submission.scoring.device import in_batches, one_thread

BATCH_ON_GPU = 512


class Opened(Protocol):
    """An opened checkpoint, which can be pickled for another process."""

    @property
    def ranker(self) -> Ranker:
        """Return the ranker, in evaluation mode."""


@dataclass(frozen=True)
class BatchedPairs:
    """Pairs, and which of them a network reads at a time: their numbers in batches."""

    pairs: PaddedPairs
    batches: list[np.ndarray]

    @property
    def rows(self) -> np.ndarray:
        """The numbers of the pairs, batch after batch."""
        return np.concatenate([np.empty(0, dtype=int), *self.batches])

    def parts(self, least: int) -> list[BatchedPairs]:
        """Cut between batches: parts of so many pairs at least, but for the last."""
        parts: list[BatchedPairs] = []
        for rows in self.batches:
            if not parts or sum(map(len, parts[-1].batches)) >= least:
                parts.append(BatchedPairs(self.pairs, []))
            parts[-1].batches.append(rows)
        return parts

    def alone(self) -> BatchedPairs:
        """Return the part with its own premises alone, to be sent to another process."""
        rows, pairs = self.rows, self.pairs
        premises, place = np.unique(pairs.premise[rows], return_inverse=True)
        own = PaddedPairs(pairs.queries, pairs.premises.some(premises), pairs.query[rows], place)
        return BatchedPairs(own, np.split(np.arange(len(rows)), np.cumsum([len(batch) for batch in self.batches])[:-1]))


class PreparedRanker:
    """A ranker with what all pairs of some queries share, computed once."""

    def __init__(self, ranker: Ranker, queries: Padded, device: torch.device) -> None:
        """Take a ranker in evaluation mode, on the device."""
        self._ranker, self._device = ranker, device
        with torch.inference_mode(), one_thread():
            self._of_topic = ranker.prepare(queries.ids.long().to(device)) if isinstance(ranker, TopicRanker) else None

    def outputs(self, work: BatchedPairs) -> np.ndarray:
        """Scores (N,), or of a siamese ranker vectors (N, V) of the premises, float32, in the order of the work."""

        def on_cpu(rows: np.ndarray) -> Tensor:
            return self._of_batch(work.pairs, rows).cpu()

        longest_first = in_batches(on_cpu, work.batches[::-1], self._device, torch.cat)
        return np.asarray(torch.cat(longest_first[::-1]), dtype=np.float32)

    def _of_batch(self, pairs: PaddedPairs, rows: np.ndarray) -> Tensor:
        premises = pairs.premises.take(pairs.premise[rows], self._device)
        if isinstance(self._ranker, SiameseRanker):
            return self._ranker.represent_many(*premises)
        if self._of_topic:  # the batch is of one topic
            return self._of_topic(*pairs.queries.take(pairs.query[rows[:1]], self._device), *premises)
        return self._ranker(*pairs.queries.take(pairs.query[rows], self._device), *premises)


def score_pairs(ranker: Ranker, pairs: PaddedPairs, device: torch.device) -> np.ndarray:
    """Scores (N,) float32, here and at once.

    Args:
        ranker: in evaluation mode, on the device.
        pairs: what to score.
        device: where to compute.
    """

    def outputs(work: BatchedPairs) -> list[np.ndarray]:
        return [PreparedRanker(ranker, pairs.queries, device).outputs(work)] if work.batches else []

    return _scores(ranker, pairs, device, outputs, partial(_matched, ranker, device))


def score_in_parts(opened: Opened, pairs: PaddedPairs, device: torch.device, kept: Kept, engine: Engine) -> np.ndarray:
    """Score pairs by an engine in parts that are kept, so that a restarted execution resumes.

    Args:
        opened: gives the ranker.
        pairs: what to score.
        device: what each part is computed on; a GPU computes BERT encoders in half precision.
        kept: where the outputs of finished parts are kept; it must be of these very arguments.
        engine: where they are computed.
    """
    ranker = opened.ranker
    unit = "premises" if isinstance(ranker, SiameseRanker) else "pairs"

    def outputs(work: BatchedPairs) -> list[np.ndarray]:
        cut = enumerate(work.parts(ranker.kept_together))
        parts = [Part(f"part-{number:05}.npy", len(part.rows), part.alone) for number, part in cut]
        parts.reverse()  # the longest texts first: no worker is left alone with them at the end
        compute = Outputs(opened, pairs.queries, device)
        content = kept_parts(compute, parts, kept, engine, device, ranker.name(), unit)
        return [array_of(content(number)) for number in range(len(parts))][::-1]

    def matched(of_vectors: PaddedPairs, vectors: np.ndarray) -> np.ndarray:
        return computed(engine, Match(opened, device), (of_vectors, vectors), device)

    return _scores(ranker, pairs, device, outputs, matched)


@dataclass(frozen=True)
class Outputs:
    """Computes the content of a part's file; can be pickled for another process."""

    opened: Opened
    queries: Padded
    device: torch.device

    def __call__(self, work: BatchedPairs) -> bytes:
        """The network's outputs, as .npy."""
        return npy(self._network.outputs(work))

    @cached_property
    def _network(self) -> PreparedRanker:
        return PreparedRanker(_placed(self.opened, self.device), self.queries, self.device)


@dataclass(frozen=True)
class Match:
    """Computes scores of vectors; can be pickled for another process."""

    opened: Opened
    device: torch.device

    def __call__(self, part: tuple[PaddedPairs, np.ndarray]) -> np.ndarray:
        """Scores (N,) of pairs whose premises are rows of vectors."""
        return _matched(_placed(self.opened, self.device), self.device, *part)


def _scores(
    ranker: Ranker,
    pairs: PaddedPairs,
    device: torch.device,
    outputs: Callable[[BatchedPairs], list[np.ndarray]],
    matched: Callable[[PaddedPairs, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Scores (N,) by the way that suits the ranker: nothing is shared between pairs, or some work by the pairs of a topic, or
    each distinct premise is read once for all topics.
    """
    size, lengths = BATCH_ON_GPU if device.type == "cuda" else ranker.batch, pairs.lengths()
    if isinstance(ranker, SiameseRanker):
        premises, place = np.unique(pairs.premise, return_inverse=True)
        distinct = PaddedPairs(pairs.queries, pairs.premises, np.zeros_like(premises), premises)
        work = BatchedPairs(distinct, batches(distinct.lengths(), size))
        return matched(PaddedPairs(pairs.queries, Padded.of([]), pairs.query, place), _in_order(work, outputs(work)))
    if isinstance(ranker, TopicRanker):
        work = BatchedPairs(pairs, [rows[batch] for rows in pairs.topics() for batch in batches(lengths[rows], size)])
    else:
        work = BatchedPairs(pairs, batches(lengths, size))
    return _in_order(work, outputs(work))


def _in_order(work: BatchedPairs, found: list[np.ndarray]) -> np.ndarray:
    """Outputs (N, …) by the numbers of the pairs; none (0,) of no pairs."""
    if not found:
        return np.empty(0, dtype=np.float32)
    outputs = np.concatenate(found)
    values = np.empty_like(outputs)
    values[work.rows] = outputs
    return values


@torch.inference_mode()
def _matched(ranker: Ranker, device: torch.device, pairs: PaddedPairs, vectors: np.ndarray) -> np.ndarray:
    """Scores (N,) of pairs whose premises are rows of vectors (premises, V)."""
    assert isinstance(ranker, SiameseRanker)
    scores = np.empty(len(pairs.premise), dtype=np.float32)
    with one_thread():
        for rows in pairs.topics():
            query = ranker.represent(*pairs.queries.take(pairs.query[rows[:1]], device))
            document = torch.from_numpy(vectors[pairs.premise[rows]]).to(device)
            scores[rows] = ranker.match(query.expand(len(rows), -1), document).cpu()
    return scores


def _placed(opened: Opened, device: torch.device) -> Ranker:
    ranker = opened.ranker.to(device)
    if device.type == "cuda":
        ranker.use_precision(torch.float16)
    return ranker
