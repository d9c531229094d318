"""Derive independent random generators from one seed."""

from enum import IntEnum

import numpy as np


class RandomStream(IntEnum):
    """Random streams, one per purpose, whose values never change: checkpoints depend on them."""

    SAMPLE = 0  # sample of arguments
    SPLIT = 1  # validation conclusions
    NEGATIVES = 2  # candidate negatives
    MISSING_VECTORS = 3  # vectors of words missing from a vectors file
    EPOCH_ORDER = 4  # order of examples in an epoch
    VALIDATION_SAMPLE = 5  # validation queries used during training
    HARD_NEGATIVES = 6  # order of hard negatives
    # sample of debate titles; substream of a title's index: sample of its documents
    DEBATE_TITLES = 7
    DROPOUT = 8  # dropout masks per step under torchrun
    CENTROIDS = 9  # initial centroids of latent terms
    CANDIDATES = 10  # negatives of validation queries; substream: index of the query


def create_generator(seed: int, stream: RandomStream, *substream: int) -> np.random.Generator:
    """Create the generator of a seed's stream or substream, e.g. an epoch's."""
    return np.random.default_rng([seed, stream, *substream])
