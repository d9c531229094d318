"""Score pairs in cached shards, reproducibly; topics and documents are tokenised once."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from aragorn.engine.base import LOCAL_ENGINE, Engine, run_task
from aragorn.engine.shards import Shard, compute_shards
from aragorn.errors import CheckpointError
from aragorn.inference.checkpoint_io import NetworkCheckpoint
from aragorn.inference.device import batch_by_length, map_batches, use_single_thread
from aragorn.models.padding import PaddedTexts, TokenIds
from aragorn.models.ranker import Ranker, SiameseRanker, TopicRanker
from aragorn.storage.artifact_store import ArtifactStore, decode_npy, encode_npy
from aragorn.text.tokenisers import Tokeniser
from aragorn.timing import Stopwatch


class TokenSource(Protocol):
    """Interface of sources that provide the token ids of topics and documents."""

    def get_query_token_ids(self, tokeniser: Tokeniser) -> Mapping[str, TokenIds]:
        """Return the token ids of all topics by qid."""

    def get_premise_token_ids(
        self, tokeniser: Tokeniser, docnos: Iterable[str]
    ) -> Mapping[str, TokenIds]:
        """Return the token ids of premises by docno, in ascending order of docno."""


class TokenCache(TokenSource):
    """A token source that caches the tokens of premises, shared by all tokenisers with the same
    `premise_key`."""

    def __init__(
        self,
        topics: pd.DataFrame,
        load_premises: Callable[[set[str]], pd.DataFrame],
        stopwatch: Stopwatch,
    ) -> None:
        """Create a cache from topics `qid query` and a function that loads premises `docno premise`
        by docno.

        The stopwatch measures the stage "tokenisation".
        """
        self._queries = dict(zip(topics["qid"], topics["query"], strict=True))
        self._load_premises, self._stopwatch = load_premises, stopwatch
        self._tokens_by_tokeniser: dict[str, dict[str, list[Any]]] = {}

    def get_query_token_ids(self, tokeniser: Tokeniser) -> dict[str, list[int]]:
        return {qid: tokeniser.encode_query(query) for qid, query in self._queries.items()}

    def get_premise_token_ids(
        self, tokeniser: Tokeniser, docnos: Iterable[str]
    ) -> dict[str, np.ndarray]:
        """Return the token ids (L,) int32 of premises by docno, in ascending order of docno."""
        with self._stopwatch.stage("tokenisation"):
            requested_docnos = set(docnos)
            tokens = self._tokens_by_tokeniser.setdefault(tokeniser.premise_key, {})
            missing_docnos = requested_docnos - tokens.keys()
            if missing_docnos:
                premises = self._load_premises(missing_docnos)
                tokens |= zip(
                    premises["docno"],
                    map(tokeniser.tokenise_premise, premises["premise"]),
                    strict=True,
                )
            return {
                docno: np.array(tokeniser.to_ids(tokens[docno]), dtype=np.int32)
                for docno in sorted(requested_docnos)
            }


GPU_BATCH_SIZE = 512  # pairs, or premises of siamese rankers

LoadedRanker = NetworkCheckpoint[Ranker, Tokeniser]


@dataclass(frozen=True)
class TokenisedPairs:
    """Pairs to score: pair i joins row query_rows[i] of the queries and row premise_rows[i] of the
    premises."""

    queries: PaddedTexts
    premises: PaddedTexts
    query_rows: np.ndarray
    premise_rows: np.ndarray

    @classmethod
    def from_keys(
        cls,
        pairs: Iterable[tuple[str, str]],
        queries: Mapping[str, TokenIds],
        premises: Mapping[str, TokenIds],
    ) -> Self:
        """Create pairs from tuples (query key, premise key); `queries` and `premises` map the keys
        to token ids."""
        keys_by_side = list(zip(*pairs, strict=True)) or [(), ()]
        rows = []
        for keys, ids in zip(keys_by_side, (queries, premises), strict=True):
            row_by_key = {key: row for row, key in enumerate(ids)}
            rows.append(np.array([row_by_key[key] for key in keys], dtype=int))
        return cls(
            PaddedTexts.from_ids(list(queries.values())),
            PaddedTexts.from_ids(list(premises.values())),
            *rows,
        )

    def get_premise_lengths(self) -> np.ndarray:
        """Return the premise lengths (N,) of the pairs."""
        lengths: np.ndarray = self.premises.lengths.numpy()[self.premise_rows]
        return lengths

    def group_by_query(self) -> list[np.ndarray]:
        """Return the pair numbers of each query, one array per query."""
        order = np.argsort(self.query_rows, kind="stable")
        return (
            np.split(order, np.flatnonzero(np.diff(self.query_rows[order])) + 1)
            if len(order)
            else []
        )


@dataclass(frozen=True)
class BatchedPairs:
    """Pairs with a division of their numbers into batches."""

    pairs: TokenisedPairs
    batches: list[np.ndarray]

    @property
    def pair_order(self) -> np.ndarray:
        """Return the pair numbers in batch order."""
        return np.concatenate(self.batches)

    def split(self, min_size: int) -> list[Self]:
        """Split into shards of whole batches; each shard except the last has at least `min_size`
        pairs."""
        shards: list[Self] = []
        for rows in self.batches:
            if not shards or sum(map(len, shards[-1].batches)) >= min_size:
                shards.append(type(self)(self.pairs, []))
            shards[-1].batches.append(rows)
        return shards

    def compact(self) -> Self:
        """Return a copy that contains only the premises of these batches, to be sent to another
        process."""
        rows, pairs = self.pair_order, self.pairs
        premises, premise_rows = np.unique(pairs.premise_rows[rows], return_inverse=True)
        shard = TokenisedPairs(
            pairs.queries, pairs.premises.select(premises), pairs.query_rows[rows], premise_rows
        )
        return type(self)(
            shard,
            np.split(np.arange(len(rows)), np.cumsum([len(batch) for batch in self.batches])[:-1]),
        )

    def restore_order(self, outputs: np.ndarray) -> np.ndarray:
        """Reorder outputs (N, …) from batch order to pair order."""
        return outputs[np.argsort(self.pair_order)]


class PairScorer:
    """A scorer that scores each pair independently of the others."""

    unit = "pairs"

    def __init__(self, ranker: Ranker, queries: PaddedTexts, device: torch.device) -> None:
        """Create a scorer of pairs of `queries`; the ranker must be on the device and in evaluation
        mode."""
        self._ranker, self._device = ranker, device

    @classmethod
    def make_batches(cls, pairs: TokenisedPairs, size: int) -> BatchedPairs:
        """Group pairs into batches of at most `size`, with premises of similar length."""
        return BatchedPairs(pairs, batch_by_length(pairs.get_premise_lengths(), size))

    def compute(self, batched_pairs: BatchedPairs) -> np.ndarray:
        """Compute scores (N,) float32 in batch order."""

        def compute_batch(rows: np.ndarray) -> Tensor:
            pairs = batched_pairs.pairs
            return self._compute_batch(
                pairs, rows, pairs.premises.batch(pairs.premise_rows[rows], self._device)
            ).cpu()

        longest_first = map_batches(
            compute_batch, batched_pairs.batches[::-1], self._device, torch.cat
        )
        return np.asarray(torch.cat(longest_first[::-1]), dtype=np.float32)

    def _compute_batch(
        self, pairs: TokenisedPairs, rows: np.ndarray, premises: tuple[Tensor, Tensor]
    ) -> Tensor:
        return self._ranker(*pairs.queries.batch(pairs.query_rows[rows], self._device), *premises)


class TopicScorer(PairScorer):
    """A scorer that shares computations between queries and between a query's documents; each batch
    has one topic."""

    def __init__(self, ranker: TopicRanker, queries: PaddedTexts, device: torch.device) -> None:
        super().__init__(ranker, queries, device)
        with torch.inference_mode(), use_single_thread():
            self._score_topic = ranker.prepare_queries(queries.ids.long().to(device))

    @classmethod
    def make_batches(cls, pairs: TokenisedPairs, size: int) -> BatchedPairs:
        lengths, groups = pairs.get_premise_lengths(), pairs.group_by_query()
        return BatchedPairs(
            pairs,
            [rows[batch] for rows in groups for batch in batch_by_length(lengths[rows], size)],
        )

    def _compute_batch(
        self, pairs: TokenisedPairs, rows: np.ndarray, premises: tuple[Tensor, Tensor]
    ) -> Tensor:
        return self._score_topic(
            *pairs.queries.batch(pairs.query_rows[rows[:1]], self._device), *premises
        )


class SiameseScorer(PairScorer):
    """A scorer that encodes each distinct premise once for all topics.

    `compute` returns the vectors (N, V) of the N distinct premises instead of scores.
    """

    unit = "premises"
    _ranker: SiameseRanker

    @classmethod
    def make_batches(cls, pairs: TokenisedPairs, size: int) -> BatchedPairs:
        premises = np.unique(pairs.premise_rows)
        return super().make_batches(
            TokenisedPairs(pairs.queries, pairs.premises, np.zeros_like(premises), premises), size
        )

    def _compute_batch(
        self, pairs: TokenisedPairs, rows: np.ndarray, premises: tuple[Tensor, Tensor]
    ) -> Tensor:
        return self._ranker.encode_batch(*premises)

    @torch.inference_mode()
    def score_vectors(self, pairs: TokenisedPairs, vectors: np.ndarray) -> np.ndarray:
        """Compute the scores (N,) float32 of pairs from the vectors (P, V) of their distinct
        premises, in row order."""
        scores = np.empty(len(pairs.query_rows), dtype=np.float32)
        _, vector_rows = np.unique(pairs.premise_rows, return_inverse=True)
        with use_single_thread():
            for rows in pairs.group_by_query():
                query = self._ranker.encode(
                    *pairs.queries.batch(pairs.query_rows[rows[:1]], self._device)
                )
                document = torch.from_numpy(vectors[vector_rows[rows]]).to(self._device)
                scores[rows] = self._ranker.score_vectors(
                    query.expand(len(rows), -1), document
                ).cpu()
        return scores


def score_documents(
    pairs: pd.DataFrame,
    token_source: TokenSource,
    checkpoint: LoadedRanker,
    device: torch.device,
    store: ArtifactStore,
    engine: Engine = LOCAL_ENGINE,
) -> np.ndarray:
    """Compute the scores (N,) float32 of pairs `qid docno` in cached shards, so that an interrupted
    execution can resume.

    `store`'s cache key must depend on the pairs, their texts, the checkpoint and the device.

    Raises:
        CheckpointError: If a score is not finite.
    """
    queries = token_source.get_query_token_ids(checkpoint.tokeniser)
    premises = token_source.get_premise_token_ids(checkpoint.tokeniser, pairs["docno"])
    tokenised_pairs = TokenisedPairs.from_keys(
        zip(pairs["qid"], pairs["docno"], strict=True), queries, premises
    )
    if pairs.empty:
        return np.empty(0, dtype=np.float32)
    ranker, remote_scorer = (
        checkpoint.network,
        RemoteScorer(checkpoint, tokenised_pairs.queries, device),
    )
    batched_pairs = _make_batches(ranker, tokenised_pairs, device)
    # Longest texts first, so that the last shards are short and workers finish together.
    longest_first = list(enumerate(batched_pairs.split(ranker.shard_size)))[::-1]
    shards = [
        Shard(f"part-{index:05}.npy", len(shard.pair_order), shard.compact)
        for index, shard in longest_first
    ]
    name, unit = ranker.get_name(), _choose_scorer(ranker).unit
    read_shard = compute_shards(remote_scorer.compute, shards, store, engine, device, name, unit)
    outputs = [decode_npy(read_shard(index)) for index in range(len(shards))]
    scores = batched_pairs.restore_order(np.concatenate(outputs[::-1]))
    if isinstance(ranker, SiameseRanker):
        pairs_without_premises = replace(tokenised_pairs, premises=PaddedTexts.from_ids([]))
        scores = run_task(
            engine, remote_scorer.score_vectors, (pairs_without_premises, scores), device
        )
    non_finite_pairs = pairs[~np.isfinite(scores)]
    if len(non_finite_pairs):
        qid, docno = non_finite_pairs["qid"].iloc[0], non_finite_pairs["docno"].iloc[0]
        raise CheckpointError(
            f"{name}: the score of document {docno} for topic {qid} is not finite; retrain the ranker"
        )
    return scores


def score_pairs(ranker: Ranker, pairs: TokenisedPairs, device: torch.device) -> np.ndarray:
    """Compute the scores (N,) float32 of pairs without a cache; the ranker must be on the device,
    in evaluation mode."""
    if not len(pairs.query_rows):
        return np.empty(0, dtype=np.float32)
    batched_pairs = _make_batches(ranker, pairs, device)
    scorer = _choose_scorer(ranker)(ranker, pairs.queries, device)
    outputs = batched_pairs.restore_order(scorer.compute(batched_pairs))
    return scorer.score_vectors(pairs, outputs) if isinstance(scorer, SiameseScorer) else outputs


@dataclass(frozen=True)
class RemoteScorer:
    """A picklable wrapper of a scorer, which each process creates from the checkpoint on first
    use."""

    checkpoint: LoadedRanker
    queries: PaddedTexts
    device: torch.device

    def compute(self, batched_pairs: BatchedPairs) -> bytes:
        """Compute a shard's outputs in batch order, as the bytes of a .npy file."""
        return encode_npy(self._scorer.compute(batched_pairs))

    def score_vectors(self, pairs_and_vectors: tuple[TokenisedPairs, np.ndarray]) -> np.ndarray:
        """Compute the scores (N,) float32 of pairs from the vectors (P, V) of their distinct
        premises, in row order."""
        assert isinstance(self._scorer, SiameseScorer)
        return self._scorer.score_vectors(*pairs_and_vectors)

    @cached_property
    def _scorer(self) -> PairScorer:
        ranker = self.checkpoint.move_network(self.device)
        return _choose_scorer(ranker)(ranker, self.queries, self.device)


def _choose_scorer(ranker: Ranker) -> type[PairScorer]:
    if isinstance(ranker, SiameseRanker):
        return SiameseScorer
    return TopicScorer if isinstance(ranker, TopicRanker) else PairScorer


def _make_batches(ranker: Ranker, pairs: TokenisedPairs, device: torch.device) -> BatchedPairs:
    return _choose_scorer(ranker).make_batches(
        pairs, GPU_BATCH_SIZE if device.type == "cuda" else ranker.cpu_batch_size
    )
