"""Choose the highest scores."""

from __future__ import annotations

import numpy as np


def top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the places of the k highest scores (N,), descending; of equal scores the first places.

    Selects before it sorts, so that N scores take O(N + k log k) where few are equal.
    """
    if len(scores) <= k:
        return np.argsort(-scores, kind="stable")
    candidates = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
    return candidates[np.argsort(-scores[candidates], kind="stable")[:k]]
