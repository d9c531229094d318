"""Correlate scores with the quality of each topic's arguments: Pearson, Spearman, Kendall; means over topics."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, pearsonr, spearmanr

from submission.errors import InputError
from training.quality.lists import topics_of

MEASURES = {"Pearson": pearsonr, "Spearman": spearmanr, "Kendall": kendalltau}  # the last: tau-b


def correlations(labels: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """Pearson's r, Spearman's rho, Kendall's tau-b of a list's labels, not all of them equal, and scores; 0 of equal scores."""
    if (scores == scores[0]).all():
        return dict.fromkeys(MEASURES, 0.0)
    return {name: float(measure(labels, scores).statistic) for name, measure in MEASURES.items()}


def macro(table: pd.DataFrame, scores: np.ndarray) -> dict[str, float]:
    """The means over the topics of a table, in percent.

    Args:
        table: arguments with their quality.
        scores: (rows,), in its order.

    Raises:
        InputError: a topic has no two arguments of different quality.
    """
    labels = table["score"].to_numpy()
    found = []
    for rows in topics_of(table):
        if (labels[rows] == labels[rows[0]]).all():
            data, topic = (table[name].iloc[rows[0]] for name in ("data", "topic"))
            raise InputError(f"{data}, topic {topic!r}: no two arguments of different quality; leave it out")
        found.append(correlations(labels[rows], scores[rows]))
    return {name: round(100 * float(np.mean([one[name] for one in found])), 2) for name in MEASURES}
