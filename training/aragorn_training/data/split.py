"""Derive random generators from one seed, and split arguments into a training and a validation set
as in Entezari 2020 (sections 3.3, 4.2)."""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import pandas as pd

from aragorn.errors import InputError, pluralise

TRAIN = "train"
VALIDATION = "validation"
# premises per validation query; only conclusions with exactly this number of premises qualify
POSITIVES = 5
NEGATIVES_PER_ARGUMENT = {TRAIN: 1, VALIDATION: 20}
# per validation query; positives come first
CANDIDATES_PER_QUERY = POSITIVES * (1 + NEGATIVES_PER_ARGUMENT[VALIDATION])
MAX_VALIDATION_ARGUMENTS = 4_885
# negatives of a validation conclusion are arguments of the others
MIN_VALIDATION_CONCLUSIONS = 1 + NEGATIVES_PER_ARGUMENT[VALIDATION]
VALIDATION_RULE = (
    f"which needs at least {MIN_VALIDATION_CONCLUSIONS} conclusions with exactly {POSITIVES} "
    "premises; add such conclusions"
)
METRIC_CUTOFF = 20


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


def hold_out(total: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split indices below `total` at random into `count` (at least 1) and the remaining ones."""
    indices = create_generator(seed, RandomStream.SPLIT).permutation(total)
    return indices[: max(1, count)], indices[max(1, count) :]


def hold_out_names(
    names: Sequence[str], one_in: int, seed: int, unit: str, source: object
) -> list[str]:
    """Draw one in `one_in` names of units, at least one; raise InputError with the source of the
    units for fewer than two."""
    if len(names) < 2:
        problem = f"{pluralise(len(names), unit)}; at least 2 are needed to hold one out"
        raise InputError(source, "", problem, "add data")
    indices, _ = hold_out(len(names), len(names) // one_in, seed)
    return [names[index] for index in indices]


def split_by_conclusion(arguments: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split arguments by conclusion into a training and a validation set; raise InputError if one
    would be empty.

    The validation set consists of the arguments of all conclusions with exactly POSITIVES premises,
    or of a random sample of at most MAX_VALIDATION_ARGUMENTS / POSITIVES of these. Both sets are
    sorted by normalised conclusion, then docno.
    """
    arguments = arguments.sort_values(["normalised_conclusion", "docno"], ignore_index=True)
    premise_counts = arguments.groupby("normalised_conclusion", sort=True).size()
    eligible_conclusions = premise_counts.index[premise_counts == POSITIVES].to_numpy()
    if not len(eligible_conclusions):
        raise InputError(
            f"no conclusion has exactly {POSITIVES} premises of sufficient length (maximum: "
            f"{premise_counts.max()}), so there is no validation set, {VALIDATION_RULE}"
        )
    shuffled_conclusions = create_generator(seed, RandomStream.SPLIT).permutation(
        eligible_conclusions
    )
    validation_conclusions = shuffled_conclusions[: MAX_VALIDATION_ARGUMENTS // POSITIVES]
    if len(validation_conclusions) == len(premise_counts):
        raise InputError(
            f"every conclusion has exactly {POSITIVES} premises and is used for validation, so "
            "there is no training set; add conclusions with other numbers of premises"
        )
    is_validation = arguments["normalised_conclusion"].isin(set(validation_conclusions))
    train, validation = (
        arguments[rows].reset_index(drop=True) for rows in (~is_validation, is_validation)
    )
    return train, validation
