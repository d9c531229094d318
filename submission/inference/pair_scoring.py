"""Deterministic scoring of pairs in cached shards, with one strategy per kind of network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from submission.engine.base import HERE, Engine, computed
from submission.engine.shards import Part, kept_parts
from submission.errors import CheckpointError
from submission.inference.batching import Padded, PaddedPairs, batches
from submission.inference.device import in_batches, one_thread
from submission.inference.token_ids import Tokens
from submission.models.ranker import Ranker, SiameseRanker, TopicRanker
from submission.storage.artifact_store import Kept, array_of, npy
from submission.text.tokenisers import Tokeniser

BATCH_ON_GPU = 512


class LoadedRanker(Protocol):
    """A loaded ranker checkpoint that can be pickled."""

    @property
    def ranker(self) -> Ranker:
        """Return the ranker, in evaluation mode."""

    @property
    def tokeniser(self) -> Tokeniser:
        """Return the tokeniser of its texts."""

    def on(self, device: torch.device) -> Ranker:
        """Return the ranker on a device, in the precision for bulk inference."""


@dataclass(frozen=True)
class BatchedPairs:
    """Pairs and their grouping into batches, as pair numbers."""

    pairs: PaddedPairs
    batches: list[np.ndarray]

    @property
    def rows(self) -> np.ndarray:
        """Return the pair numbers in batch order."""
        return np.concatenate(self.batches)

    def parts(self, least: int) -> list[BatchedPairs]:
        """Split between batches into shards of at least `least` pairs, except the last."""
        shards: list[BatchedPairs] = []
        for rows in self.batches:
            if not shards or sum(map(len, shards[-1].batches)) >= least:
                shards.append(BatchedPairs(self.pairs, []))
            shards[-1].batches.append(rows)
        return shards

    def alone(self) -> BatchedPairs:
        """Return a copy with only its own premises, to be sent to another process."""
        rows, pairs = self.rows, self.pairs
        premises, premise_rows = np.unique(pairs.premise[rows], return_inverse=True)
        copy = PaddedPairs(pairs.queries, pairs.premises.some(premises), pairs.query[rows], premise_rows)
        return BatchedPairs(copy, np.split(np.arange(len(rows)), np.cumsum([len(batch) for batch in self.batches])[:-1]))

    def by_number(self, outputs: np.ndarray) -> np.ndarray:
        """Reorder outputs (N, …) from batch order to pair order."""
        return outputs[np.argsort(self.rows)]


class Pairwise:
    """Scorer of each pair by itself."""

    unit = "pairs"

    def __init__(self, ranker: Ranker, queries: Padded, device: torch.device) -> None:
        """Create a scorer from a ranker in evaluation mode on the device, and all queries."""
        self._ranker, self._device = ranker, device

    @classmethod
    def cut(cls, pairs: PaddedPairs, size: int) -> BatchedPairs:
        """Group pairs into batches of at most `size`."""
        return BatchedPairs(pairs, batches(pairs.lengths(), size))

    def outputs(self, batched: BatchedPairs) -> np.ndarray:
        """Compute scores (N,) float32 in batch order."""

        def compute_batch(rows: np.ndarray) -> Tensor:
            pairs = batched.pairs
            return self._of_batch(pairs, rows, pairs.premises.take(pairs.premise[rows], self._device)).cpu()

        longest_first = in_batches(compute_batch, batched.batches[::-1], self._device, torch.cat)
        return np.asarray(torch.cat(longest_first[::-1]), dtype=np.float32)

    def _of_batch(self, pairs: PaddedPairs, rows: np.ndarray, premises: tuple[Tensor, Tensor]) -> Tensor:
        return self._ranker(*pairs.queries.take(pairs.query[rows], self._device), *premises)


class PerTopic(Pairwise):
    """Scorer that shares query computations; each batch has one topic."""

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
    """Scorer that encodes each distinct premise once for all topics; outputs are vectors (premises, V) in premise order."""

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
        """Score pairs (N,) float32 from the vectors of their distinct premises."""
        scores, vector_rows = np.empty(len(pairs.query), dtype=np.float32), np.unique(pairs.premise, return_inverse=True)[1]
        with one_thread():
            for rows in pairs.topics():
                query = self._ranker.represent(*pairs.queries.take(pairs.query[rows[:1]], self._device))
                document = torch.from_numpy(vectors[vector_rows[rows]]).to(self._device)
                scores[rows] = self._ranker.match(query.expand(len(rows), -1), document).cpu()
        return scores


def score(
    pairs: pd.DataFrame, tokens: Tokens, checkpoint: LoadedRanker, device: torch.device, kept: Kept, engine: Engine = HERE
) -> np.ndarray:
    """Score topic-document pairs (N,) float32.

    Args:
        pairs: `qid docno`.
        tokens: token ids of topics and premises.
        checkpoint: the network and its tokeniser.
        device: device to compute on.
        kept: artifact store; its key must cover all other arguments.
        engine: computes the shards.

    Raises:
        CheckpointError: a score is not finite.
        OutputError: the cache cannot be written.
    """
    tokeniser, keys = checkpoint.tokeniser, zip(pairs["qid"], pairs["docno"], strict=True)
    tokenised = PaddedPairs.of(keys, tokens.queries(tokeniser), tokens.premises(tokeniser, pairs["docno"]))
    scores = score_in_parts(checkpoint, tokenised, device, kept, engine)
    non_finite = pairs[~np.isfinite(scores)]
    if len(non_finite):
        qid, docno = non_finite["qid"].iloc[0], non_finite["docno"].iloc[0]
        name = checkpoint.ranker.name()
        raise CheckpointError(f"{name}: score of document {docno} for topic {qid} is not finite; retrain the network")
    return scores


def score_pairs(ranker: Ranker, pairs: PaddedPairs, device: torch.device) -> np.ndarray:
    """Score pairs (N,) float32 in this process, without a cache.

    Args:
        ranker: in evaluation mode, on the device.
        pairs: pairs to score.
        device: device to compute on.
    """
    if not len(pairs.query):
        return np.empty(0, dtype=np.float32)
    batched = _cut(ranker, pairs, device)
    scorer = _strategy(ranker)(ranker, pairs.queries, device)
    outputs = batched.by_number(scorer.outputs(batched))
    return scorer.matched(pairs, outputs) if isinstance(scorer, Siamese) else outputs


def score_in_parts(opened: LoadedRanker, pairs: PaddedPairs, device: torch.device, kept: Kept, engine: Engine) -> np.ndarray:
    """Score pairs with an engine in cached shards, so that an interrupted execution resumes.

    Args:
        opened: the ranker checkpoint.
        pairs: pairs to score.
        device: device for each shard.
        kept: artifact store; its key must cover all other arguments.
        engine: computes the shards.
    """
    if not len(pairs.query):
        return np.empty(0, dtype=np.float32)
    ranker, remote = opened.ranker, Remote(opened, pairs.queries, device)
    batched = _cut(ranker, pairs, device)
    shards = list(enumerate(batched.parts(ranker.kept_together)))
    # Longest texts first, so that no worker finishes late.
    parts = [Part(f"part-{index:05}.npy", len(shard.rows), shard.alone) for index, shard in shards[::-1]]
    content = kept_parts(remote.outputs, parts, kept, engine, device, ranker.name(), _strategy(ranker).unit)
    outputs = batched.by_number(np.concatenate([array_of(content(index)) for index in range(len(parts))][::-1]))
    if not isinstance(ranker, SiameseRanker):
        return outputs
    pairs_without_texts = PaddedPairs(pairs.queries, Padded.of([]), pairs.query, pairs.premise)
    return computed(engine, remote.matched, (pairs_without_texts, outputs), device)


@dataclass(frozen=True)
class Remote:
    """A scorer that is created in the process that runs it; can be pickled."""

    opened: LoadedRanker
    queries: Padded
    device: torch.device

    def outputs(self, batched: BatchedPairs) -> bytes:
        """Compute a shard's outputs as .npy bytes."""
        return npy(self._scorer.outputs(batched))

    def matched(self, pairs_and_vectors: tuple[PaddedPairs, np.ndarray]) -> np.ndarray:
        """Score pairs (N,) from the vectors of their distinct premises."""
        assert isinstance(self._scorer, Siamese)
        return self._scorer.matched(*pairs_and_vectors)

    @cached_property
    def _scorer(self) -> Pairwise:
        ranker = self.opened.on(self.device)
        return _strategy(ranker)(ranker, self.queries, self.device)


def _strategy(ranker: Ranker) -> type[Pairwise]:
    if isinstance(ranker, SiameseRanker):
        return Siamese
    return PerTopic if isinstance(ranker, TopicRanker) else Pairwise


def _cut(ranker: Ranker, pairs: PaddedPairs, device: torch.device) -> BatchedPairs:
    return _strategy(ranker).cut(pairs, BATCH_ON_GPU if device.type == "cuda" else ranker.batch)
