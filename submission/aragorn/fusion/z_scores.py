"""Compute z-scores, which make the scores of different systems comparable."""

import numpy as np


def compute_z_scores(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Standardise values (N,) by mean and standard deviation of the pool's values `reference` (M,);
    0 if the pool is constant.

    The order of the pool does not affect rounding.
    """
    sorted_reference = np.sort(reference)
    # Because of rounding, equal values may have a non-zero standard deviation.
    deviation = sorted_reference.std() if sorted_reference[0] < sorted_reference[-1] else 0.0
    return (
        np.asarray((values - sorted_reference.mean()) / deviation)
        if deviation
        else np.zeros(len(values))
    )
