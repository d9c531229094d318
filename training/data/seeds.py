"""The streams of random numbers, each its own under a seed: none changes when another draws more or less."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """The streams of random numbers. A number must stay as it is: checkpoints were made with it."""

    SAMPLE = 0  # of the arguments
    SPLIT = 1  # which conclusions validate
    UNRELATED = 2  # premises among which the least similar are looked for
    VECTORS = 3  # of terms that a vectors file does not have
    ORDER = 4  # of the arguments in an epoch
    QUERIES = 5  # the part of the validation that picks the checkpoint
    ANSWERS = 6  # the order in which what a search found is dealt out
    TITLES = 7  # of debates; and of a title (its number) the documents
    DROPOUT = 8  # the masks of a step, where several processes train together
    CLUSTERS = 9  # the first centroids of latent terms


def generator(seed: int, stream: Stream, *more: int) -> np.random.Generator:
    """The numbers of a stream, or of a part of it (an epoch, say)."""
    return np.random.default_rng([seed, stream, *more])
