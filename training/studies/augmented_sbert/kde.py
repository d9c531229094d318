"""Subsample random pairs to the label distribution of gold (KDE sampling, Thakur et al. 2021, section 3.1)."""

from __future__ import annotations

import numpy as np
from scipy.stats import gaussian_kde

from submission.errors import TrainingError

DENSITY_GRID = np.linspace(0, 1, 1001)  # evaluation grid of the densities
POSITIVE_THRESHOLD = 0.5  # silver labels at or above are positive


def density_mask(scores: np.ndarray, gold: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return which graded pairs to keep, each with its retention probability.

    Args:
        scores: Teacher scores (pairs,) in [0, 1].
        gold: Gold labels (gold pairs,).
        rng: Random number generator.

    Returns:
        Boolean mask (pairs,).

    Raises:
        TrainingError: If all scores or all labels are equal.
    """
    return np.asarray(rng.random(len(scores)) < retention_probabilities(scores, gold))


def retention_probabilities(scores: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Return Q(s) = min(1, F_gold(s) / F_silver(s)) per pair, with Gaussian kernel density estimates (Scott's bandwidth).

    Raises:
        TrainingError: If all scores or all labels are equal.
    """
    for values, description in ((scores, "the teacher's scores of random pairs"), (gold, "the gold labels")):
        if np.ptp(values) < 1e-6:
            raise TrainingError(
                f"{description} are all {values[0]:.6f}: no density can be estimated; "
                "check the teacher's learning rate and training data"
            )
    gold_density, silver_density = (gaussian_kde(values)(DENSITY_GRID) for values in (gold, scores))
    ratio = np.ones(len(DENSITY_GRID))
    np.divide(gold_density, silver_density, out=ratio, where=gold_density < silver_density)
    return np.asarray(np.interp(scores, DENSITY_GRID, ratio))


def class_ratio_mask(scores: np.ndarray, gold: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return which binary pairs to keep: all positives, and random negatives in gold's class ratio.

    Args:
        scores: Teacher scores (pairs,) in [0, 1]; positive from POSITIVE on.
        gold: Gold labels (gold pairs,), 0 and 1.
        rng: Random number generator.

    Returns:
        Boolean mask (pairs,).
    """
    mask = scores >= POSITIVE_THRESHOLD
    negatives = round(mask.sum() * np.sum(gold == 0) / np.sum(gold == 1))
    mask[rng.permutation(np.flatnonzero(~mask))[:negatives]] = True
    return np.asarray(mask)
