"""Provide independent random streams under one seed."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """Random streams. Never change a value: shipped checkpoints depend on it."""

    SAMPLE = 0  # sample of arguments
    SPLIT = 1  # validation conclusions
    UNRELATED = 2  # candidate negatives
    VECTORS = 3  # vectors of words missing in a vectors file
    ORDER = 4  # order of examples in an epoch
    QUERIES = 5  # queries of the validation during training
    ANSWERS = 6  # order of hard negatives
    TITLES = 7  # debate titles; with a title index, its documents
    DROPOUT = 8  # dropout masks per step under torchrun
    CLUSTERS = 9  # initial centroids of latent terms


def generator(seed: int, stream: Stream, *more: int) -> np.random.Generator:
    """Return the generator of a stream or of a part of it, such as an epoch."""
    return np.random.default_rng([seed, stream, *more])
