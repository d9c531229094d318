"""Thins randomly drawn pairs until their labels are distributed as gold's (Thakur et al. 2021, section 3.1, KDE sampling)."""

from __future__ import annotations

import numpy as np
from scipy.stats import gaussian_kde

from submission.errors import TrainingError

GRID = np.linspace(0, 1, 1001)  # where the densities are computed
POSITIVE = 0.5  # a silver label from here on says: a pair of the class


def by_density(scores: np.ndarray, gold: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Which pairs to keep, of labels that are degrees: each with the probability `retention` gives it.

    Args:
        scores: (pairs,) the teacher's, from 0 to 1.
        gold: (gold pairs,) labels.
        rng: for the draws.

    Returns:
        (pairs,) bool.

    Raises:
        TrainingError: all scores or all labels are the same.
    """
    return np.asarray(rng.random(len(scores)) < retention(scores, gold))


def retention(scores: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Q(s) = min(1, F_gold(s) / F_silver(s)), (pairs,): kernel density estimates (Gaussian, Scott's bandwidth) of both.

    Raises:
        TrainingError: all scores or all labels are the same.
    """
    for values, whose in ((scores, "the teacher's scores of random pairs"), (gold, "the gold labels")):
        if np.ptp(values) < 1e-6:
            raise TrainingError(
                f"{whose} are all {values[0]:.6f}, they have no density; look at its learning rate and its data"
            )
    wanted, found = (gaussian_kde(values)(GRID) for values in (gold, scores))
    ratio = np.ones(len(GRID))
    np.divide(wanted, found, out=ratio, where=wanted < found)
    return np.asarray(np.interp(scores, GRID, ratio))


def by_class(scores: np.ndarray, gold: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Which pairs to keep, of labels that are classes: all positive ones, and random negative ones in gold's ratio.

    Args:
        scores: (pairs,) the teacher's, from 0 to 1; 0.5 and more is positive.
        gold: (gold pairs,) labels, 0 or 1, both among them.
        rng: for the draws.

    Returns:
        (pairs,) bool.
    """
    keep = scores >= POSITIVE
    negatives = round(keep.sum() * np.sum(gold == 0) / np.sum(gold == 1))
    keep[rng.permutation(np.flatnonzero(~keep))[:negatives]] = True
    return np.asarray(keep)
