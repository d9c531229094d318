"""Split arguments into training and validation by the protocol of Entezari 2020 (3.3, 4.2)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from submission.errors import InputError
from training.data.seeds import Stream, generator

TRAIN, VALIDATION = "train", "validation"
RELATED = 5  # premises per validation query; only conclusions with exactly this many qualify
UNRELATED = {TRAIN: 1, VALIDATION: 20}  # negatives per argument
CANDIDATES = RELATED + RELATED * UNRELATED[VALIDATION]  # premises ranked per validation query; positives come first
ARGUMENTS = 4_885  # maximum size of the validation set
DEPTH = 20  # rank cutoff of the metrics


def hold_out(total: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split `total` indices at random into `count` held-out ones (at least one) and the others."""
    indices = generator(seed, Stream.SPLIT).permutation(total)
    return indices[: max(1, count)], indices[max(1, count) :]


def split(arguments: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split arguments by conclusion into training and validation.

    Conclusions with exactly five premises form the validation set, at most 977 of them. Both parts are sorted by
    normalised conclusion, then docno.

    Args:
        arguments: with columns `docno` and `normalised_conclusion`.
        seed: seed of the selection if more than 977 conclusions qualify.

    Raises:
        InputError: no conclusion qualifies, or all do.
    """
    arguments = arguments.sort_values(["normalised_conclusion", "docno"], ignore_index=True)
    premise_counts = arguments.groupby("normalised_conclusion", sort=True).size()
    eligible = premise_counts.index[premise_counts == RELATED].to_numpy()
    if not len(eligible):
        raise InputError(
            f"no conclusion has exactly {RELATED} premises of sufficient length (maximum: {premise_counts.max()}), so there is "
            "no validation set; use a larger corpus"
        )
    validation_conclusions = generator(seed, Stream.SPLIT).permutation(eligible)[: ARGUMENTS // RELATED]
    if len(validation_conclusions) == len(premise_counts):
        raise InputError(f"every conclusion has exactly {RELATED} premises, so there is no training set; use a larger corpus")
    is_validation = arguments["normalised_conclusion"].isin(set(validation_conclusions))
    return arguments[~is_validation].reset_index(drop=True), arguments[is_validation].reset_index(drop=True)
