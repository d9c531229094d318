"""Compute z-scores, which make the scores of different systems comparable."""

import numpy as np


def z_scores(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Standardise values (N,) by mean and standard deviation of the pool's values `reference` (M,); 0 if the pool is constant.

    The order of the pool does not affect rounding.
    """
    ordered = np.sort(reference)
    # Because of rounding, equal values may have a non-zero standard deviation.
    deviation = ordered.std() if ordered[0] < ordered[-1] else 0.0
    return np.asarray((values - ordered.mean()) / deviation) if deviation else np.zeros(len(values))
