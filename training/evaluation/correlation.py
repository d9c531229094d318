"""Correlate scores with argument quality per topic, and average the correlations."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, pearsonr, spearmanr

from submission.errors import InputError

CORRELATIONS = {"Pearson": pearsonr, "Spearman": spearmanr, "Kendall": kendalltau}  # kendalltau computes tau-b


def group_rows_by_topic(table: pd.DataFrame) -> list[np.ndarray]:
    """Return the row numbers of each topic of each data set."""
    topic_ids = table.groupby(["data", "topic"], sort=False).ngroup().to_numpy()
    return [np.flatnonzero(topic_ids == topic_id) for topic_id in range(topic_ids.max(initial=-1) + 1)]


def correlations(labels: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """Return Pearson's r, Spearman's rho and Kendall's tau-b; 0 if all scores are equal."""
    if (scores == scores[0]).all():
        return dict.fromkeys(CORRELATIONS, 0.0)
    return {name: float(measure(labels, scores).statistic) for name, measure in CORRELATIONS.items()}


def mean_correlations(table: pd.DataFrame, scores: np.ndarray) -> dict[str, float]:
    """Return the correlations of scores (rows,) with a table's labels, in percent, averaged over topics.

    Raises:
        InputError: If all arguments of a topic have the same quality.
    """
    labels = table["score"].to_numpy()
    by_topic = []
    for rows in group_rows_by_topic(table):
        if (labels[rows] == labels[rows[0]]).all():
            data, topic = (table[name].iloc[rows[0]] for name in ("data", "topic"))
            raise InputError(f"{data}, topic {topic!r}: all arguments have the same quality; remove the topic")
        by_topic.append(correlations(labels[rows], scores[rows]))
    return {name: round(100 * float(np.mean([values[name] for values in by_topic])), 2) for name in CORRELATIONS}
