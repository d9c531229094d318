"""Evaluate scores of ranked arguments: correlations, partial ones given length, and nDCG."""

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.metrics import ndcg_score

from aragorn_training.evaluation.similarity import CORRELATIONS, correlate, group_rows_by_topic
from aragorn_training.fitting.listwise import compute_dense_ranks

PARTIAL_SPEARMAN = "partial Spearman (length)"
DEPTHS = (5, 10, 15)
NDCG_LINEAR, NDCG_EXPONENTIAL = (
    tuple(f"nDCG@{depth}{gain}" for depth in DEPTHS) for gain in ("", " exponential")
)
MEASURES = (*CORRELATIONS, PARTIAL_SPEARMAN, *NDCG_LINEAR, *NDCG_EXPONENTIAL)


def count_argument_words(table: pd.DataFrame) -> np.ndarray:
    """Return the word counts (rows,) of a table's arguments, the scores of the length baseline."""
    return table["premise"].str.split().str.len().to_numpy(dtype=np.float64)


def evaluate_by_topic(table: pd.DataFrame, scores: np.ndarray) -> pd.DataFrame:
    """Evaluate scores per topic.

    Args:
        table: Frame `data topic premise score`; a topic is a (data, topic) pair.
        scores: Scores (rows,), larger is better.

    Returns:
        One row per (data, topic) in table order, with columns MEASURES. nDCG gains are dense ranks
        of the labels (1 = worst) divided by their maximum (linear), or 2^rank - 1 (exponential);
        ties in score share the mean gain.
    """
    labels = table["score"].to_numpy(dtype=np.float64)
    lengths = count_argument_words(table)
    topics = group_rows_by_topic(table)
    names = pd.MultiIndex.from_frame(table.iloc[[rows[0] for rows in topics]][["data", "topic"]])
    return pd.DataFrame(
        [_evaluate_topic(labels[rows], scores[rows], lengths[rows]) for rows in topics],
        names,
        list(MEASURES),
    )


def _evaluate_topic(labels: np.ndarray, scores: np.ndarray, lengths: np.ndarray) -> list[float]:
    coefficients = correlate(labels, scores)
    ranks = compute_dense_ranks(labels)
    max_rank = ranks.max()
    # scaled by 2^-max_rank, which cancels in nDCG
    gains = (ranks / max_rank, np.exp2(ranks - max_rank) - np.exp2(-max_rank))
    values = [ndcg_score([gain], [scores], k=depth) for gain in gains for depth in DEPTHS]
    return [
        *(coefficients[name] for name in CORRELATIONS),
        partial_spearman(labels, scores, lengths),
        *map(float, values),
    ]


def partial_spearman(labels: np.ndarray, scores: np.ndarray, lengths: np.ndarray) -> float:
    """Compute Spearman's partial correlation given length; 0 if length determines either."""
    ranks = np.stack([rankdata(values) for values in (labels, scores, lengths)])
    *centred_ranks, length_ranks = ranks - ranks.mean(axis=1, keepdims=True)
    squared_norm = max(length_ranks @ length_ranks, 1e-9)
    residuals = [
        rank - (rank @ length_ranks) / squared_norm * length_ranks for rank in centred_ranks
    ]
    norms = np.prod([np.linalg.norm(residual) for residual in residuals])
    return float(residuals[0] @ residuals[1] / norms) if norms > 1e-9 else 0.0
