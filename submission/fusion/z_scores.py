"""Z-score normalisation, which makes the scores of different systems comparable."""

from __future__ import annotations

import numpy as np


def z_scores(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Standardise values (N,) by the mean and standard deviation of a pool (M,); 0 if the pool is constant.

    The pool's order does not affect the result.
    """
    ordered = np.sort(reference)
    # Rounding can give equal values a deviation above 0.
    deviation = ordered.std() if ordered[0] < ordered[-1] else 0.0
    return np.asarray((values - ordered.mean()) / deviation) if deviation else np.zeros(len(values))
