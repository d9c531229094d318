"""Validate rankers on candidates or all premises (Entezari 2020, sections 3.3, 4.2)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from rank_bm25 import BM25Okapi
from torch import Tensor

from aragorn.inference.device import batch_by_length
from aragorn.inference.pair_scoring import TokenisedPairs, score_pairs
from aragorn.inference.pretrained import PretrainedEncoder
from aragorn.models.network import LatentRanker, Network, PaddedTexts, Ranker
from aragorn_training.data.pair_tables import ValidationQueries
from aragorn_training.data.split import METRIC_CUTOFF, POSITIVES
from aragorn_training.fitting.initialisation import read_encoder_config

VERSION = 1  # of validation scores of the same network
COMPUTES_WITH = (
    "aragorn.inference.pair_scoring",
    "aragorn.text.normalisation",
    "aragorn_training.data.distant_supervision",
    "numpy",
    "rank-bm25",
    "torch",
)

# query rows → scores (queries, candidates)
CandidateScorer = Callable[[ValidationQueries, np.ndarray], np.ndarray]

ENCODING_BATCH_SIZE = 2048  # number of texts
RECALL_DEPTH = 100
NDCG_DEPTH = 10
RECALL = f"recall@{RECALL_DEPTH} (full collection)"
NDCG = f"nDCG@{NDCG_DEPTH} (full collection)"


def measure_candidates(scores: np.ndarray, tie_order: np.ndarray) -> dict[str, float]:
    """Compute MRR, MAP and nDCG at 20 in percent, averaged over queries, of scores (Q, C), the 5
    positives first; equal scores are sorted by `tie_order` (Q, C), ascending.

    AP is divided by the 5 positives; nDCG uses binary gains.
    """
    order = np.lexsort((tie_order, -scores), axis=1)[:, :METRIC_CUTOFF]
    hits = order < POSITIVES  # (Q, 20)
    ranks = np.arange(1, METRIC_CUTOFF + 1)
    reciprocal_ranks = np.where(hits.any(1), 1 / (hits.argmax(1) + 1), 0)
    precision = hits.cumsum(1) / ranks
    discount = 1 / np.log2(ranks + 1)
    ndcg = (hits * discount).sum(1) / discount[:POSITIVES].sum()
    means = {
        "MRR@20": reciprocal_ranks.mean(),
        "MAP@20": (precision * hits).sum(1).mean() / POSITIVES,
        "nDCG@20": ndcg.mean(),
    }
    return {name: round(100 * float(mean), 2) for name, mean in means.items()}


def validate_candidates(
    queries: ValidationQueries, query_rows: np.ndarray, score: CandidateScorer
) -> dict[str, float]:
    """Return the metrics of `measure_candidates` of queries."""
    tie_order = queries.tie_order[queries.candidates[query_rows]]
    return measure_candidates(score(queries, query_rows), tie_order)


@contextmanager
def use_evaluation_mode(network: Network) -> Iterator[None]:
    """Switch a network to evaluation mode and restore its mode afterwards."""
    was_training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(was_training)


def build_ranker_scorer(ranker: Ranker, device: str) -> CandidateScorer:
    """Return a scorer of validation candidates that applies a ranker in evaluation mode."""

    def score(queries: ValidationQueries, query_rows: np.ndarray) -> np.ndarray:
        candidates = queries.candidates[query_rows]
        rows = np.repeat(query_rows, candidates.shape[1])
        pairs = TokenisedPairs(queries.queries, queries.premises, rows, candidates.ravel())
        with use_evaluation_mode(ranker):
            return score_pairs(ranker, pairs, device).reshape(candidates.shape)

    return score


def build_encoder_scorer(pretrained: PretrainedEncoder, device: str) -> CandidateScorer:
    """Return the baseline scorer: cosine of query and premise by the pretrained encoder."""
    from aragorn.models.rankers.sbert import SBERT  # slow import

    sbert = SBERT(SBERT.Config(**read_encoder_config(pretrained)))
    sbert.load_state_dict(pretrained.load_encoder_weights())
    return build_ranker_scorer(sbert.to(device), device)


def score_bm25(queries: ValidationQueries, query_rows: np.ndarray) -> np.ndarray:
    """Score candidates by BM25 with statistics of all validation premises (baseline)."""
    bm25 = BM25Okapi(queries.premise_words)
    words = [queries.query_words[query] for query in query_rows]
    candidates = queries.candidates[query_rows].tolist()
    return np.array([*map(bm25.get_batch_scores, words, candidates)])


@torch.inference_mode()
def measure_full_collection(
    ranker: LatentRanker,
    queries: ValidationQueries,
    query_rows: np.ndarray,
    training_premises: PaddedTexts,
    device: str,
) -> dict[str, float]:
    """Measure recall@100 and nDCG@10 of retrieval from all premises, in percent, averaged over
    queries.

    The ranker retrieves the validation and training premises whose dot product with the query is
    positive. A query's 5 positives are relevant; among premises with equal scores, they rank last.
    """
    with use_evaluation_mode(ranker):
        query_vectors = ranker.encode(*queries.queries.batch(query_rows, device))  # (Q, latent)
        premises = queries.premises.select(np.arange(POSITIVES * len(queries.candidates)))
        parts = [
            _score_all(ranker, query_vectors, texts, device)
            for texts in (premises, training_premises)
        ]
    scores = torch.cat(parts, 1).cpu().numpy()
    positives = queries.candidates[query_rows][:, :POSITIVES]
    positive_scores = np.take_along_axis(scores, positives, axis=1)  # (Q, 5)
    pairs = zip(scores, positive_scores, strict=True)
    ranks = np.array([np.searchsorted(np.sort(-row), -best, "right") for row, best in pairs])
    ranks = np.where(positive_scores > 0, ranks, np.inf)  # 1-based
    gains = np.where(ranks <= NDCG_DEPTH, 1 / np.log2(ranks + 1), 0).sum(1)
    ideal = (1 / np.log2(np.arange(POSITIVES) + 2)).sum()
    return {
        NDCG: round(100 * float((gains / ideal).mean()), 2),
        RECALL: round(100 * float((ranks <= RECALL_DEPTH).mean()), 2),
    }


def _score_all(
    ranker: LatentRanker, query_vectors: Tensor, texts: PaddedTexts, device: str
) -> Tensor:
    """Return the scores (Q, N) of texts for query vectors (Q, latent)."""
    scores = query_vectors.new_empty(len(query_vectors), len(texts.lengths))
    for rows in batch_by_length(texts.lengths.numpy(), ENCODING_BATCH_SIZE):
        scores[:, torch.from_numpy(rows).to(device)] = (
            query_vectors @ ranker.encode_batch(*texts.batch(rows, device)).t()
        )
    return scores


@torch.inference_mode()
def measure_latent_sparsity(
    ranker: LatentRanker, queries: ValidationQueries, query_rows: np.ndarray, device: str
) -> dict[str, float]:
    """Return the percentages of zeros in latent vectors of texts (Entezari 2020, eq. 3.19)."""
    percentages = {}
    for name, texts, rows in (
        ("query sparsity", queries.queries, query_rows),
        ("document sparsity", queries.premises, np.unique(queries.candidates[query_rows])),
    ):
        size = ranker.cpu_batch_size
        batches = np.split(rows, range(size, len(rows), size))
        with use_evaluation_mode(ranker):
            vectors = (ranker.encode_batch(*texts.batch(batch, device)) for batch in batches)
            zeros = [(values == 0).float().mean(1) for values in vectors]
        percentages[name] = round(100 * float(torch.cat(zeros).mean()), 2)
    return percentages
