"""Assign topics to cross-validation folds, and split names into train, dev and test sets."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

N_FOLDS = 5


def format_few_topics_warning(n_topics: int) -> str:
    """Return a warning if there are fewer topics than N_FOLDS, else an empty string."""
    if n_topics >= N_FOLDS:
        return ""
    return (
        "1 topic: no cross-validation"
        if n_topics < 2
        else f"{n_topics} topics: leave-one-out cross-validation"
    )


def assign_folds(n_topics: int, seed: int = 0) -> np.ndarray:
    """Return the fold (n_topics,) of each topic, below N_FOLDS; equal seeds give equal folds."""
    return np.random.default_rng(seed).permutation(np.arange(n_topics) % N_FOLDS)


class Fold(NamedTuple):
    """Names of the debates or topics in the train, dev and test sets of one fold."""

    train: frozenset[str]
    dev: frozenset[str]  # for early stopping
    test: frozenset[str]


def split_folds(names: Sequence[str], n_folds: int, n_dev: int, seed: int) -> list[Fold]:
    """Split names, with `n_dev` dev names each, into folds whose test sets partition the names; if
    `n_folds` is 1, the test set is empty. Raises ValueError if there are too few names."""
    order = np.random.default_rng(seed).permutation(len(names))
    shuffled = np.array(sorted(names), dtype=object)[order].tolist()
    tests = [shuffled[first::n_folds] for first in range(n_folds)] if n_folds > 1 else [[]]
    if n_folds > len(shuffled) or len(shuffled) - max(map(len, tests)) <= n_dev:
        raise ValueError(
            f"{len(shuffled)} names: too few for {n_folds} folds with {n_dev} dev names each"
        )
    splits = []
    for fold, test in enumerate(tests):
        training_names = [
            name for group in tests[fold + 1 :] + tests[:fold] for name in group
        ] or shuffled
        splits.append(
            Fold(
                frozenset(training_names[n_dev:]),
                frozenset(training_names[:n_dev]),
                frozenset(test),
            )
        )
    return splits
