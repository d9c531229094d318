"""Normalise scores to z-scores, so that scores of different systems can be added."""

from __future__ import annotations

import numpy as np


def zscores(values: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """Values (N,) less the mean of a pool (M,), divided by its deviation; 0 where all of the pool are the same.

    The pool's order changes no bit.
    """
    ordered = np.sort(pool)
    # Of equal values, rounding may leave a deviation above 0.
    deviation = ordered.std() if ordered[0] < ordered[-1] else 0.0
    return np.asarray((values - ordered.mean()) / deviation) if deviation else np.zeros(len(values))
