"""Assign topics to cross-validation folds."""

from __future__ import annotations

import numpy as np

FOLDS = 5


def few(topics: int) -> str:
    """Return a warning if there are fewer topics than folds, else an empty string."""
    if topics >= FOLDS:
        return ""
    return "1 topic: no cross-validation" if topics < 2 else f"{topics} topics: leave-one-out cross-validation"


def folds(topics: int, seed: int = 0) -> np.ndarray:
    """Assign each topic a fold index; the default seed gives the same folds to all experiments."""
    return np.random.default_rng(seed).permutation(np.arange(topics) % FOLDS)
