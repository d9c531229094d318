"""Score pairs in cached shards, reproducibly; topics and documents are tokenised once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from aragorn.cache import Parts, decode_npy, encode_npy
from aragorn.engine import CPU, LOCAL_ENGINE, Engine, Shard, compute_shards, run_task
from aragorn.errors import CheckpointError
from aragorn.inference.checkpoint import RankerCheckpoint
from aragorn.inference.device import batch_by_length, map_batches, use_single_thread
from aragorn.models.network import PaddedTexts, Ranker, SiameseRanker, TokenIds, TopicRanker
from aragorn.progress import Stopwatch, track
from aragorn.text.tokenisers import Tokeniser

if TYPE_CHECKING:
    import pandas as pd

VERSION = 1  # of scores of the same network
COMPUTES_WITH = ("aragorn.inference.checkpoint", "numpy", "torch")

GPU_BATCH_SIZE = 512  # pairs, or premises of siamese rankers


class TokenCache:
    """Token ids of topics and documents; tokenisers of one `premise_key` share premises."""

    def __init__(
        self,
        topics: pd.DataFrame,
        load_premises: Callable[[set[str]], pd.DataFrame],
        stopwatch: Stopwatch,
    ) -> None:
        """Create a cache from topics `qid query` and a function that loads premises by docno."""
        self._queries = dict(zip(topics["qid"], topics["query"], strict=True))
        self._load_premises = load_premises
        self._stopwatch = stopwatch
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


@dataclass(frozen=True)
class TokenisedPairs:
    """Pairs to score: pair i joins query query_rows[i] and premise premise_rows[i]."""

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
        """Create pairs from tuples (query key, premise key), and token ids by these keys."""
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

    def select(self, rows: np.ndarray) -> Self:
        """Return the pairs with these numbers, and only their premises."""
        premises, premise_rows = np.unique(self.premise_rows[rows], return_inverse=True)
        selection = self.premises.select(premises)
        return type(self)(self.queries, selection, self.query_rows[rows], premise_rows)

    def get_queries(self, rows: np.ndarray, device: str) -> tuple[Tensor, Tensor]:
        """Return the padded queries of pairs: ids (B, Q) and mask (B, Q)."""
        return self.queries.batch(self.query_rows[rows], device)

    def get_premises(self, rows: np.ndarray, device: str) -> tuple[Tensor, Tensor]:
        """Return the padded premises of pairs: ids (B, D) and mask (B, D)."""
        return self.premises.batch(self.premise_rows[rows], device)

    def get_premise_lengths(self) -> np.ndarray:
        lengths: np.ndarray = self.premises.lengths.numpy()[self.premise_rows]
        return lengths

    def group_by_query(self) -> list[np.ndarray]:
        """Return the pair numbers of each query, one array per query."""
        order = np.argsort(self.query_rows, kind="stable")
        if not len(order):
            return []
        return np.split(order, np.flatnonzero(np.diff(self.query_rows[order])) + 1)


Batches = list[np.ndarray]  # pair numbers, in the order of computation
PairShard = tuple[TokenisedPairs, Batches]


@dataclass(frozen=True)
class PairScorer:
    """A picklable scorer of independent pairs; it loads its ranker on first use."""

    load_ranker: Callable[[str], Any]  # on the device, in evaluation mode
    queries: PaddedTexts
    device: str

    def compute(self, shard: PairShard) -> np.ndarray:
        """Compute scores (N,) float32 in the order of the batches; of a siamese ranker, vectors
        (N, V) of the premises."""
        pairs, batches = shard
        compute_batch = self._compute_batch  # prepared before threads use it
        outputs = map_batches(
            lambda rows: compute_batch(pairs, rows).cpu(), batches, self.device, torch.cat
        )
        return np.asarray(torch.cat(outputs), dtype=np.float32)

    def compute_npy(self, shard: PairShard) -> bytes:
        """Compute as `compute` does; return the bytes of a .npy file."""
        return encode_npy(self.compute(shard))

    @cached_property
    def ranker(self) -> Any:
        return self.load_ranker(self.device)

    @cached_property
    def _compute_batch(self) -> Callable[[TokenisedPairs, np.ndarray], Tensor]:
        ranker = self.ranker
        if isinstance(ranker, SiameseRanker):
            return lambda pairs, rows: ranker.encode_batch(*pairs.get_premises(rows, self.device))
        if isinstance(ranker, TopicRanker):
            with torch.inference_mode(), use_single_thread():
                score_topic = ranker.prepare_queries(self.queries.ids.long().to(self.device))
            return lambda pairs, rows: score_topic(
                *pairs.get_queries(rows[:1], self.device), *pairs.get_premises(rows, self.device)
            )
        return lambda pairs, rows: ranker(
            *pairs.get_queries(rows, self.device), *pairs.get_premises(rows, self.device)
        )

    @torch.inference_mode()
    def score_vectors(self, pairs_and_vectors: tuple[TokenisedPairs, np.ndarray]) -> np.ndarray:
        """Compute the scores (N,) float32 of pairs from their premises' vectors (P, V)."""
        pairs, vectors = pairs_and_vectors
        scores = np.empty(len(pairs.query_rows), dtype=np.float32)
        _, vector_rows = np.unique(pairs.premise_rows, return_inverse=True)
        with use_single_thread():
            for rows in pairs.group_by_query():
                query = self.ranker.encode(*pairs.get_queries(rows[:1], self.device))
                document = torch.from_numpy(vectors[vector_rows[rows]]).to(self.device)
                queries = query.expand(len(rows), -1)
                scores[rows] = self.ranker.score_vectors(queries, document).cpu()
        return scores


def score_documents(
    pairs: pd.DataFrame,
    token_cache: TokenCache,
    checkpoint: RankerCheckpoint,
    device: str,
    parts: Parts | None,
    engine: Engine = LOCAL_ENGINE,
) -> np.ndarray:
    """Compute the scores (N,) float32 of pairs `qid docno` in cached, resumable shards.

    `parts` are of the same pairs, texts, checkpoint and device; None: this process computes all.
    Raises CheckpointError if a score is not finite.
    """
    queries = token_cache.get_query_token_ids(checkpoint.tokeniser)
    premises = token_cache.get_premise_token_ids(checkpoint.tokeniser, pairs["docno"])
    tokenised_pairs = TokenisedPairs.from_keys(
        zip(pairs["qid"], pairs["docno"], strict=True), queries, premises
    )
    if pairs.empty:
        return np.empty(0, dtype=np.float32)
    ranker = checkpoint.network
    is_siamese = isinstance(ranker, SiameseRanker)
    unit = "premises" if is_siamese else "pairs"
    scorer = PairScorer(checkpoint.move_network, tokenised_pairs.queries, device)
    items, batches = _plan(ranker, tokenised_pairs, device)
    shards = [
        Shard(f"{index:05}", sum(map(len, group)), partial(_extract_shard, items, group))
        for index, group in enumerate(_group_batches(batches, ranker.shard_size))
    ]
    name = ranker.get_name()
    if parts is None:
        sizes = [shard.n_units for shard in shards]
        tracked_shards = track(shards, name, unit, sizes)
        outputs = [scorer.compute(shard.load_input()) for shard in tracked_shards]
    else:
        read_shard = compute_shards(scorer.compute_npy, shards, parts, engine, device, name, unit)
        outputs = [decode_npy(read_shard(index)) for index in range(len(shards))]
    scores = _restore_order(np.concatenate(outputs), batches)
    if is_siamese:
        pairs_without_premises = replace(tokenised_pairs, premises=PaddedTexts.from_ids([]))
        scores = run_task(engine, scorer.score_vectors, (pairs_without_premises, scores), device)
    non_finite_pairs = pairs[~np.isfinite(scores)]
    if len(non_finite_pairs):
        qid = non_finite_pairs["qid"].iloc[0]
        docno = non_finite_pairs["docno"].iloc[0]
        raise CheckpointError(
            f"{name}: the score of document {docno} for topic {qid} is not finite; retrain the "
            "ranker"
        )
    return scores


def score_texts(
    checkpoint: RankerCheckpoint, pairs: Sequence[tuple[str, str]], device: str = CPU
) -> np.ndarray:
    """Compute the scores (N,) float32 of pairs of raw texts with a ranker, moved to the device.

    >>> knrm = load_checkpoint(Path("checkpoints/knrm"))
    >>> score_texts(knrm, [("Should zoos exist?", "Zoos keep animals in cages.")])
    """
    tokeniser = checkpoint.tokeniser
    queries = {query: tokeniser.encode_query(query) for query, _ in pairs}
    premises = {premise: tokeniser.encode_premise(premise) for _, premise in pairs}
    tokenised_pairs = TokenisedPairs.from_keys(pairs, queries, premises)
    return score_pairs(checkpoint.network.to(device), tokenised_pairs, device)


def score_pairs(ranker: Ranker, pairs: TokenisedPairs, device: str) -> np.ndarray:
    """Compute the scores (N,) float32 of pairs with a ranker on the device, without a cache."""
    if not len(pairs.query_rows):
        return np.empty(0, dtype=np.float32)
    scorer = PairScorer(lambda _: ranker, pairs.queries, device)
    items, batches = _plan(ranker, pairs, device)
    outputs = _restore_order(scorer.compute((items, batches)), batches)
    return scorer.score_vectors((pairs, outputs)) if isinstance(ranker, SiameseRanker) else outputs


def _plan(ranker: Ranker, pairs: TokenisedPairs, device: str) -> PairShard:
    """Return the pairs to compute, of siamese rankers one per premise, and their batches.

    Long premises come first, so that workers finish together; a topic ranker's batch has one topic.
    """
    size = GPU_BATCH_SIZE if device == "cuda" else ranker.cpu_batch_size
    if isinstance(ranker, SiameseRanker):
        premises = np.unique(pairs.premise_rows)
        pairs = replace(pairs, query_rows=np.zeros_like(premises), premise_rows=premises)
    lengths = pairs.get_premise_lengths()
    if not isinstance(ranker, TopicRanker):
        return pairs, batch_by_length(lengths, size)[::-1]
    return pairs, [
        rows[batch]
        for rows in pairs.group_by_query()[::-1]
        for batch in batch_by_length(lengths[rows], size)[::-1]
    ]


def _group_batches(batches: Batches, min_size: int) -> list[Batches]:
    """Group consecutive batches into shards; each except the last has at least `min_size` pairs."""
    groups: list[Batches] = []
    for rows in batches:
        if not groups or sum(map(len, groups[-1])) >= min_size:
            groups.append([])
        groups[-1].append(rows)
    return groups


def _extract_shard(pairs: TokenisedPairs, batches: Batches) -> PairShard:
    """Return the pairs of batches with their premises only, to be sent to another process."""
    rows = np.concatenate(batches)
    ends = np.cumsum([len(batch) for batch in batches])
    return pairs.select(rows), np.split(np.arange(len(rows)), ends[:-1])


def _restore_order(outputs: np.ndarray, batches: Batches) -> np.ndarray:
    """Reorder outputs (N, …) from the order of the batches to pair order."""
    return outputs[np.argsort(np.concatenate(batches))]
