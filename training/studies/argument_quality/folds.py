"""Assign debates or topics to training, dev and test folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Fold:
    """Names of the train, dev and test debates (or topics)."""

    train: frozenset[str]
    dev: frozenset[str]  # for early stopping
    test: frozenset[str]


def folds(names: Sequence[str], number: int, dev: int, seed: int) -> list[Fold]:
    """Split names so that each is tested once; test sizes differ by at most 1.

    Args:
        names: Distinct names in any order.
        number: Number of folds; 1: nothing is tested.
        dev: Number of dev names per fold.
        seed: Seed of the assignment.

    Raises:
        ValueError: If there are too few names for the folds and for training.
    """
    ordered = sorted(names)
    shuffled = [ordered[index] for index in np.random.default_rng(seed).permutation(len(ordered))]
    tests: list[list[str]] = [shuffled[first::number] for first in range(number)] if number > 1 else [[]]
    if number > len(shuffled) or len(shuffled) - max(map(len, tests)) <= dev:
        raise ValueError(f"{len(shuffled)} names: too few for {number} folds with {dev} for dev")
    splits = []
    for fold, test in enumerate(tests):
        remaining = [name for group in tests[fold + 1 :] + tests[:fold] for name in group] or shuffled
        splits.append(Fold(frozenset(remaining[dev:]), frozenset(remaining[:dev]), frozenset(test)))
    return splits
