"""Measure how well scores order the arguments of a list: correlations, also given length, and nDCG with two gains."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.metrics import ndcg_score

from training.quality.listwise import dense_ranks
from training.quality.validation import correlations, topics_of

CORRELATIONS = ("Pearson", "Spearman", "Kendall")
GIVEN_LENGTH = "Spearman given length"
DEPTHS = (5, 10, 15)
LINEAR, EXPONENTIAL = (tuple(f"nDCG@{depth}{gain}" for depth in DEPTHS) for gain in ("", " exponential"))
MEASURES = (*CORRELATIONS, GIVEN_LENGTH, *LINEAR, *EXPONENTIAL)


def lengths(table: pd.DataFrame) -> np.ndarray:
    """The number of words (rows,) of each argument: the baseline that every network is held against."""
    return table["premise"].str.split().str.len().to_numpy(dtype=np.float64)


def by_list(table: pd.DataFrame, scores: np.ndarray) -> pd.DataFrame:
    """The measures of each list.

    Args:
        table: `data topic premise score`; a list is a (data, topic).
        scores: (rows,), larger is better.

    Returns:
        A row a list (data, topic), as they come in the table, columns MEASURES. The gains of nDCG are dense ranks, of which 1
        is the worst: divided by the largest, or as exponents of 2, less 1. Of equal scores each has the mean gain.
    """
    labels, length = table["score"].to_numpy(dtype=np.float64), lengths(table)
    lists = topics_of(table)
    names = pd.MultiIndex.from_frame(table.iloc[[own[0] for own in lists]][["data", "topic"]])
    return pd.DataFrame([_of_list(labels[own], scores[own], length[own]) for own in lists], names, list(MEASURES))


def _of_list(labels: np.ndarray, scores: np.ndarray, length: np.ndarray) -> list[float]:
    found = correlations(labels, scores)
    ranks = dense_ranks(labels)
    top = ranks.max()
    gains = (ranks / top, np.exp2(ranks - top) - np.exp2(-top))  # the latter divided by 2^top, which cancels
    values = [ndcg_score([gain], [scores], k=depth) for gain in gains for depth in DEPTHS]
    return [*(found[name] for name in CORRELATIONS), given(labels, scores, length), *map(float, values)]


def given(labels: np.ndarray, scores: np.ndarray, length: np.ndarray) -> float:
    """Spearman's partial correlation of labels and scores given length; 0 where length leaves nothing of one of them."""
    ranks = np.stack([rankdata(values) for values in (labels, scores, length)])
    *both, of_length = ranks - ranks.mean(axis=1, keepdims=True)
    left = [own - (own @ of_length) / max(of_length @ of_length, 1e-9) * of_length for own in both]
    norms = np.prod([np.linalg.norm(own) for own in left])
    return float(left[0] @ left[1] / norms) if norms > 1e-9 else 0.0
