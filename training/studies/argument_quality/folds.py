"""Divide debates or lists into training, dev and test folds, never a part of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Fold:
    """A division of names, of debates or of lists."""

    train: frozenset[str]
    dev: frozenset[str]  # choose the epoch
    test: frozenset[str]


def folds(names: Sequence[str], number: int, dev: int, seed: int) -> list[Fold]:
    """Divide names so that each tests once: folds differ by one at most in what they test.

    Args:
        names: in any order, each once.
        number: of folds; 1: nothing is tested.
        dev: how many choose the epoch, of those that do not test.
        seed: of the order in which names are dealt out.

    Raises:
        ValueError: too few names for so many folds, or nothing left to train on.
    """
    ordered = sorted(names)
    dealt = [ordered[place] for place in np.random.default_rng(seed).permutation(len(ordered))]
    tests: list[list[str]] = [dealt[first::number] for first in range(number)] if number > 1 else [[]]
    if number > len(dealt) or len(dealt) - max(map(len, tests)) <= dev:
        raise ValueError(f"{len(dealt)} names: too few for {number} folds with {dev} to choose by")
    found = []
    for place, test in enumerate(tests):
        others = [name for own in tests[place + 1 :] + tests[:place] for name in own] or dealt
        found.append(Fold(frozenset(others[dev:]), frozenset(others[:dev]), frozenset(test)))
    return found
