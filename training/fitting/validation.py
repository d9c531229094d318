"""The thesis' validation: 5 related and 100 unrelated premises a query, MRR, MAP and nDCG at 20 (thesis 3.3, 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from rank_bm25 import BM25Okapi

from submission.rankers.base import LatentRanker, Ranker
from submission.rankers.network import Network
from submission.scoring.batches import PaddedPairs
from submission.scoring.pairs import score_pairs
from training.data.split import DEPTH, RELATED
from training.data.tables import Queries

Scorer = Callable[[Queries, np.ndarray], np.ndarray]  # numbers of queries → scores (queries, 105)


def measures(scores: np.ndarray, ties: np.ndarray) -> dict[str, float]:
    """MRR, MAP and nDCG at 20, in percent, means over the queries.

    Args:
        scores: (V, 105), the 5 related documents first.
        ties: (V, 105), what orders equal scores, ascending.

    AP divides by 5, the number of related documents; nDCG's gains are 0 and 1.
    """
    order = np.lexsort((ties, -scores), axis=1)[:, :DEPTH]
    hits = order < RELATED  # (V, 20)
    ranks = np.arange(1, DEPTH + 1)
    first = np.where(hits.any(1), 1 / (hits.argmax(1) + 1), 0)
    precision = hits.cumsum(1) / ranks
    discount = 1 / np.log2(ranks + 1)
    return {
        "MRR@20": round(100 * float(first.mean()), 2),
        "MAP@20": round(100 * float((precision * hits).sum(1).mean() / RELATED), 2),
        "nDCG@20": round(100 * float(((hits * discount).sum(1) / discount[:RELATED].sum()).mean()), 2),
    }


def validate(queries: Queries, chosen: np.ndarray, score: Scorer) -> tuple[dict[str, float], bool]:
    """Measures over some of the queries, and whether all scores of all of them are tied (a dead network)."""
    scores = score(queries, chosen)
    if not np.isfinite(scores).all():
        raise FloatingPointError("a validation score is not finite")
    return measures(scores, queries.ties[queries.candidates[chosen]]), bool((scores == scores[:, :1]).all())


@contextmanager
def evaluating(network: Network) -> Iterator[None]:
    """The network in evaluation mode, and then as it was."""
    was_training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(was_training)


def by_ranker(ranker: Ranker, device: torch.device) -> Scorer:
    """Scores of a network, in evaluation mode."""

    def score(queries: Queries, chosen: np.ndarray) -> np.ndarray:
        candidates = queries.candidates[chosen]
        pairs = PaddedPairs(queries.queries, queries.premises, np.repeat(chosen, candidates.shape[1]), candidates.ravel())
        with evaluating(ranker):
            return score_pairs(ranker, pairs, device).reshape(candidates.shape)

    return score


def by_bm25(queries: Queries, chosen: np.ndarray) -> np.ndarray:
    """Scores of untrained BM25 over the premises: what is printed beside a network."""
    engine = BM25Okapi(queries.texts)
    return np.array([engine.get_scores(queries.words[query])[queries.candidates[query]] for query in chosen])


@torch.inference_mode()
def sparsity(ranker: LatentRanker, queries: Queries, chosen: np.ndarray, device: torch.device) -> dict[str, float]:
    """The share of zeros, in percent, in the latent vectors of some queries and of their candidates (thesis eq. 3.19)."""
    values = {}
    for name, texts, rows in (
        ("sparsity of queries", queries.queries, chosen),
        ("sparsity of documents", queries.premises, np.unique(queries.candidates[chosen])),
    ):
        parts = np.split(rows, range(ranker.batch, len(rows), ranker.batch))
        with evaluating(ranker):
            zeros = [(ranker.represent_many(*texts.take(part, device)) == 0).float().mean(1) for part in parts]
        values[name] = round(100 * float(torch.cat(zeros).mean()), 2)
    return values
