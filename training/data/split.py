"""Which arguments validate: those whose normalised conclusion has exactly five premises (thesis 3.3)."""

from __future__ import annotations

import pandas as pd

from submission.errors import InputError
from training.data.protocol import ARGUMENTS, RELATED
from training.data.seeds import Stream, generator


def split(arguments: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Train and validation arguments, both sorted by normalised conclusion, then docno.

    Args:
        arguments: with columns `docno` and `normalised_conclusion`.
        seed: of the choice among the conclusions with exactly five premises, where they are more than 977.

    Raises:
        InputError: no normalised conclusion has exactly five premises.
    """
    arguments = arguments.sort_values(["normalised_conclusion", "docno"], ignore_index=True)
    sizes = arguments.groupby("normalised_conclusion", sort=True).size()
    fitting = sizes.index[sizes == RELATED].to_numpy()
    if not len(fitting):
        raise InputError(
            f"no conclusion has exactly {RELATED} premises of sufficient length (the most has {sizes.max()}), so nothing can "
            "validate; use a larger part of the corpus"
        )
    chosen = generator(seed, Stream.SPLIT).permutation(fitting)[: ARGUMENTS // RELATED]
    if len(chosen) == len(sizes):
        raise InputError(f"all conclusions have exactly {RELATED} premises, so nothing trains; use a larger part of the corpus")
    validates = arguments["normalised_conclusion"].isin(set(chosen))
    return arguments[~validates].reset_index(drop=True), arguments[validates].reset_index(drop=True)
