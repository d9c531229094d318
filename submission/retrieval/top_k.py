"""Selection of the highest scores."""

from __future__ import annotations

import numpy as np


def top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the positions of the k highest scores (N,), descending; ties go to the first position.

    Selects before sorting: O(N + k log k) if few scores are equal.
    """
    if len(scores) <= k:
        return np.argsort(-scores, kind="stable")
    candidates = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
    return candidates[np.argsort(-scores[candidates], kind="stable")[:k]]
