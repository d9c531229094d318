"""Topics → folds: what is chosen on the others is measured on each."""

from __future__ import annotations

import numpy as np

FOLDS = 5


def few(topics: int) -> str:
    """Say how so few topics are folded; "" if there are enough."""
    if topics >= FOLDS:
        return ""
    return "1 topic: nothing is cross-validated" if topics < 2 else f"{topics} topics: as many folds, each of one topic"


def folds(topics: int, seed: int = 0) -> np.ndarray:
    """Give each topic the number of its fold (topics,): by the default the same ones for all that is measured on them."""
    return np.random.default_rng(seed).permutation(np.arange(topics) % FOLDS)
