"""Topics → folds: what is chosen on the others is measured on each."""

from __future__ import annotations

import numpy as np

FOLDS = 5


def folds(topics: int, seed: int = 0) -> np.ndarray:
    """The number of each topic's fold (topics,): by the default the same ones for all that is measured on them."""
    return np.random.default_rng(seed).permutation(np.arange(topics) % FOLDS)
