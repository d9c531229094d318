"""Validate rankers on 5 positives and 100 negatives per query, or on all premises (Entezari 2020, 3.3 and 4.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from rank_bm25 import BM25Okapi
from torch import Tensor

from submission.inference.batching import Padded, PaddedPairs, batches
from submission.inference.pair_scoring import score_pairs
from submission.inference.pretrained import Pretrained
from submission.models.network import Network
from submission.models.ranker import LatentRanker, Ranker
from training.data.pair_tables import Queries
from training.data.split import DEPTH, RELATED

Scorer = Callable[[Queries, np.ndarray], np.ndarray]  # query rows → scores (queries, 105)

ENCODING_BATCH_SIZE = 2048  # larger batches share more words
RECALL_DEPTH, NDCG_DEPTH = 100, 10
RECALL, NDCG = f"recall@{RECALL_DEPTH} of all", f"nDCG@{NDCG_DEPTH} of all"


def measures(scores: np.ndarray, ties: np.ndarray) -> dict[str, float]:
    """Compute MRR, MAP and nDCG at 20 in percent, averaged over queries.

    AP divides by the 5 positives; nDCG uses binary gains.

    Args:
        scores: (V, 105), the 5 positives first.
        ties: (V, 105), orders equal scores, ascending.
    """
    order = np.lexsort((ties, -scores), axis=1)[:, :DEPTH]
    hits = order < RELATED  # (V, 20)
    ranks = np.arange(1, DEPTH + 1)
    reciprocal_ranks = np.where(hits.any(1), 1 / (hits.argmax(1) + 1), 0)
    precision = hits.cumsum(1) / ranks
    discount = 1 / np.log2(ranks + 1)
    return {
        "MRR@20": round(100 * float(reciprocal_ranks.mean()), 2),
        "MAP@20": round(100 * float((precision * hits).sum(1).mean() / RELATED), 2),
        "nDCG@20": round(100 * float(((hits * discount).sum(1) / discount[:RELATED].sum()).mean()), 2),
    }


def validate(queries: Queries, chosen: np.ndarray, score: Scorer) -> tuple[dict[str, float], bool]:
    """Measure some queries; also return whether the scores of every query are all tied (a dead network)."""
    scores = score(queries, chosen)
    if not np.isfinite(scores).all():
        raise FloatingPointError("a validation score is not finite")
    return measures(scores, queries.ties[queries.candidates[chosen]]), bool((scores == scores[:, :1]).all())


@contextmanager
def evaluating(network: Network) -> Iterator[None]:
    """Switch a network to evaluation mode and restore its mode afterwards."""
    was_training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(was_training)


def by_ranker(ranker: Ranker, device: torch.device) -> Scorer:
    """Return a scorer that uses a ranker in evaluation mode."""

    def score(queries: Queries, chosen: np.ndarray) -> np.ndarray:
        candidates = queries.candidates[chosen]
        pairs = PaddedPairs(queries.queries, queries.premises, np.repeat(chosen, candidates.shape[1]), candidates.ravel())
        with evaluating(ranker):
            return score_pairs(ranker, pairs, device).reshape(candidates.shape)

    return score


def by_cosine(pretrained: Pretrained, device: torch.device) -> Scorer:
    """Return a scorer by the cosine of the untrained encoder's mean vectors (baseline of BERT networks)."""
    from submission.models.rankers.sbert import SBERT  # imports take seconds

    sbert = SBERT(SBERT.Config(**pretrained.config(frozen=-1)))
    sbert.load_state_dict(pretrained.tensors())
    return by_ranker(sbert.to(device), device)


def by_bm25(queries: Queries, chosen: np.ndarray) -> np.ndarray:
    """Score candidates with BM25 over the premises (baseline)."""
    bm25 = BM25Okapi(queries.texts)
    return np.array([bm25.get_scores(queries.words[query])[queries.candidates[query]] for query in chosen])


@torch.inference_mode()
def search(
    ranker: LatentRanker, queries: Queries, chosen: np.ndarray, others: Padded, device: torch.device
) -> dict[str, float]:
    """Measure recall@100 and nDCG@10 against all premises, in percent, averaged over queries.

    A query's 5 positives are relevant. Ties rank below the others.

    Args:
        ranker: retrieves premises with a positive dot product.
        queries: validation queries with their premises.
        chosen: rows of the queries to measure.
        others: training premises, searched together with the validation premises.
        device: device of the ranker.
    """
    with evaluating(ranker):
        query_vectors = ranker.represent(*queries.queries.take(chosen, device))  # (Q, latent)
        parts = [_scores(ranker, query_vectors, texts, device) for texts in (queries.premises, others)]
    scores = torch.cat(parts, 1).cpu().numpy()
    positive_scores = np.take_along_axis(scores, queries.candidates[chosen][:, :RELATED], axis=1)  # (Q, 5)
    pairs = zip(scores, positive_scores, strict=True)
    ranks = np.array([np.searchsorted(np.sort(-row), -positives, "right") for row, positives in pairs])
    ranks = np.where(positive_scores > 0, ranks, np.inf)  # 1-based
    gains = np.where(ranks <= NDCG_DEPTH, 1 / np.log2(ranks + 1), 0).sum(1)
    ideal = (1 / np.log2(np.arange(RELATED) + 2)).sum()
    return {
        NDCG: round(100 * float((gains / ideal).mean()), 2),
        RECALL: round(100 * float((ranks <= RECALL_DEPTH).mean()), 2),
    }


def _scores(ranker: LatentRanker, own: Tensor, texts: Padded, device: torch.device) -> Tensor:
    """Return scores (Q, N) of texts for query vectors (Q, latent)."""
    scores = own.new_empty(len(own), len(texts.lengths))
    for rows in batches(texts.lengths.numpy(), ENCODING_BATCH_SIZE):
        scores[:, torch.from_numpy(rows).to(device)] = own @ ranker.represent_many(*texts.take(rows, device)).t()
    return scores


@torch.inference_mode()
def sparsity(ranker: LatentRanker, queries: Queries, chosen: np.ndarray, device: torch.device) -> dict[str, float]:
    """Return the percentage of zeros in latent vectors of queries and candidates (Entezari 2020, eq. 3.19)."""
    percentages = {}
    for name, texts, rows in (
        ("sparsity of queries", queries.queries, chosen),
        ("sparsity of documents", queries.premises, np.unique(queries.candidates[chosen])),
    ):
        row_batches = np.split(rows, range(ranker.batch, len(rows), ranker.batch))
        with evaluating(ranker):
            zeros = [(ranker.represent_many(*texts.take(batch, device)) == 0).float().mean(1) for batch in row_batches]
        percentages[name] = round(100 * float(torch.cat(zeros).mean()), 2)
    return percentages
