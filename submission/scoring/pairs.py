"""Score pairs of ids in deterministic, cached parts, by the strategy of each kind of network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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

    def on(self, device: torch.device) -> Ranker:
        """Return it on a device, in the precision for many texts there."""


@dataclass(frozen=True)
class BatchedPairs:
    """Pairs, and which of them a network reads at a time: their numbers in batches."""

    pairs: PaddedPairs
    batches: list[np.ndarray]

    @property
    def rows(self) -> np.ndarray:
        """The numbers of the pairs, batch after batch."""
        return np.concatenate(self.batches)

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

    def by_number(self, outputs: np.ndarray) -> np.ndarray:
        """Bring outputs (N, …) from the order of the rows into that of the pairs' numbers."""
        return outputs[np.argsort(self.rows)]


class Pairwise:
    """Each pair is scored alone."""

    unit = "pairs"

    def __init__(self, ranker: Ranker, queries: Padded, device: torch.device) -> None:
        """Take a ranker in evaluation mode, on the device, and all queries that may come."""
        self._ranker, self._device = ranker, device

    @classmethod
    def cut(cls, pairs: PaddedPairs, size: int) -> BatchedPairs:
        """Cut pairs into batches of at most `size`."""
        return BatchedPairs(pairs, batches(pairs.lengths(), size))

    def outputs(self, batched: BatchedPairs) -> np.ndarray:
        """Compute the scores (N,) float32 in the order of the rows."""

        def on_cpu(rows: np.ndarray) -> Tensor:
            pairs = batched.pairs
            return self._of_batch(pairs, rows, pairs.premises.take(pairs.premise[rows], self._device)).cpu()

        longest_first = in_batches(on_cpu, batched.batches[::-1], self._device, torch.cat)
        return np.asarray(torch.cat(longest_first[::-1]), dtype=np.float32)

    def _of_batch(self, pairs: PaddedPairs, rows: np.ndarray, premises: tuple[Tensor, Tensor]) -> Tensor:
        return self._ranker(*pairs.queries.take(pairs.query[rows], self._device), *premises)


class PerTopic(Pairwise):
    """All pairs share work on the queries, which is done once; a batch is of one topic."""

    def __init__(self, ranker: TopicRanker, queries: Padded, device: torch.device) -> None:
        super().__init__(ranker, queries, device)
        with torch.inference_mode(), one_thread():
            self._of_topic = ranker.prepare(queries.ids.long().to(device))

    @classmethod
    def cut(cls, pairs: PaddedPairs, size: int) -> BatchedPairs:
        lengths = pairs.lengths()
        return BatchedPairs(pairs, [rows[batch] for rows in pairs.topics() for batch in batches(lengths[rows], size)])

    def _of_batch(self, pairs: PaddedPairs, rows: np.ndarray, premises: tuple[Tensor, Tensor]) -> Tensor:
        return self._of_topic(*pairs.queries.take(pairs.query[rows[:1]], self._device), *premises)


class Siamese(Pairwise):
    """Each distinct premise is read once for all topics: outputs are vectors (premises, V), ascending by premise."""

    unit = "premises"
    _ranker: SiameseRanker

    @classmethod
    def cut(cls, pairs: PaddedPairs, size: int) -> BatchedPairs:
        premises = np.unique(pairs.premise)
        return super().cut(PaddedPairs(pairs.queries, pairs.premises, np.zeros_like(premises), premises), size)

    def _of_batch(self, pairs: PaddedPairs, rows: np.ndarray, premises: tuple[Tensor, Tensor]) -> Tensor:
        return self._ranker.represent_many(*premises)

    @torch.inference_mode()
    def matched(self, pairs: PaddedPairs, vectors: np.ndarray) -> np.ndarray:
        """Compute the scores (N,) float32 of pairs from the vectors of their distinct premises."""
        scores, place = np.empty(len(pairs.query), dtype=np.float32), np.unique(pairs.premise, return_inverse=True)[1]
        with one_thread():
            for rows in pairs.topics():
                query = self._ranker.represent(*pairs.queries.take(pairs.query[rows[:1]], self._device))
                document = torch.from_numpy(vectors[place[rows]]).to(self._device)
                scores[rows] = self._ranker.match(query.expand(len(rows), -1), document).cpu()
        return scores


def score_pairs(ranker: Ranker, pairs: PaddedPairs, device: torch.device) -> np.ndarray:
    """Scores (N,) float32, here and at once.

    Args:
        ranker: in evaluation mode, on the device.
        pairs: what to score.
        device: where to compute.
    """
    if not len(pairs.query):
        return np.empty(0, dtype=np.float32)
    batched = _cut(ranker, pairs, device)
    strategy = _strategy(ranker)(ranker, pairs.queries, device)
    outputs = batched.by_number(strategy.outputs(batched))
    return strategy.matched(pairs, outputs) if isinstance(strategy, Siamese) else outputs


def score_in_parts(opened: Opened, pairs: PaddedPairs, device: torch.device, kept: Kept, engine: Engine) -> np.ndarray:
    """Score pairs by an engine in parts that are kept, so that a restarted execution resumes.

    Args:
        opened: gives the ranker.
        pairs: what to score.
        device: what each part is computed on.
        kept: where the outputs of finished parts are kept; it must be of these very arguments.
        engine: where they are computed.
    """
    if not len(pairs.query):
        return np.empty(0, dtype=np.float32)
    ranker, remote = opened.ranker, Remote(opened, pairs.queries, device)
    batched = _cut(ranker, pairs, device)
    numbered = list(enumerate(batched.parts(ranker.kept_together)))
    # The longest texts first: no worker is left alone with them at the end.
    parts = [Part(f"part-{number:05}.npy", len(part.rows), part.alone) for number, part in numbered[::-1]]
    content = kept_parts(remote.outputs, parts, kept, engine, device, ranker.name(), _strategy(ranker).unit)
    outputs = batched.by_number(np.concatenate([array_of(content(number)) for number in range(len(parts))][::-1]))
    if not isinstance(ranker, SiameseRanker):
        return outputs
    without_texts = PaddedPairs(pairs.queries, Padded.of([]), pairs.query, pairs.premise)
    return computed(engine, remote.matched, (without_texts, outputs), device)


@dataclass(frozen=True)
class Remote:
    """A strategy that is made where it computes; can be pickled for another process."""

    opened: Opened
    queries: Padded
    device: torch.device

    def outputs(self, batched: BatchedPairs) -> bytes:
        """The outputs of a part, as .npy."""
        return npy(self._strategy.outputs(batched))

    def matched(self, given: tuple[PaddedPairs, np.ndarray]) -> np.ndarray:
        """The scores (N,) of pairs, from the vectors of their distinct premises."""
        assert isinstance(self._strategy, Siamese)
        return self._strategy.matched(*given)

    @cached_property
    def _strategy(self) -> Pairwise:
        ranker = self.opened.on(self.device)
        return _strategy(ranker)(ranker, self.queries, self.device)


def _strategy(ranker: Ranker) -> type[Pairwise]:
    if isinstance(ranker, SiameseRanker):
        return Siamese
    return PerTopic if isinstance(ranker, TopicRanker) else Pairwise


def _cut(ranker: Ranker, pairs: PaddedPairs, device: torch.device) -> BatchedPairs:
    return _strategy(ranker).cut(pairs, BATCH_ON_GPU if device.type == "cuda" else ranker.batch)
