"""Subsample random pairs to the label distribution of gold (KDE sampling, Thakur et al. 2021, section 3.1)."""

from __future__ import annotations

import numpy as np
from scipy.stats import gaussian_kde

from submission.errors import TrainingError

DENSITY_GRID = np.linspace(0, 1, 1001)  # evaluation grid of the densities
POSITIVE_THRESHOLD = 0.5  # silver labels at or above are positive


def density_mask(scores: np.ndarray, gold: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a mask (pairs,) that keeps each graded pair with its retention probability."""
    return np.asarray(rng.random(len(scores)) < retention_probabilities(scores, gold))


def retention_probabilities(scores: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Return Q(s) = min(1, F_gold(s) / F_silver(s)) per pair, with Gaussian kernel density estimates (Scott's bandwidth).

    Teacher scores (pairs,) are in [0, 1], as gold labels (gold pairs,) are; neither may be constant.
    """
    for values, description in ((scores, "the teacher's scores of random pairs"), (gold, "the gold labels")):
        if np.ptp(values) < 1e-6:
            cause = f"{description} are all {values[0]:.6f}: no density can be estimated"
            raise TrainingError(f"{cause}; check the teacher's learning rate and training data")
    gold_density, silver_density = (gaussian_kde(values)(DENSITY_GRID) for values in (gold, scores))
    ratio = np.ones(len(DENSITY_GRID))
    np.divide(gold_density, silver_density, out=ratio, where=gold_density < silver_density)
    return np.asarray(np.interp(scores, DENSITY_GRID, ratio))


def class_ratio_mask(scores: np.ndarray, gold: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a mask (pairs,) that keeps all positives, and random negatives in the class ratio of gold (0 and 1)."""
    mask = scores >= POSITIVE_THRESHOLD
    negatives = round(mask.sum() * np.sum(gold == 0) / np.sum(gold == 1))
    mask[rng.permutation(np.flatnonzero(~mask))[:negatives]] = True
    return np.asarray(mask)
