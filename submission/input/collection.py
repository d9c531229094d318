"""The collection: the documents that are long enough. Nothing else is retrieved from."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd

from submission.errors import InputError

log = logging.getLogger(__name__)

SHORTEST_PREMISE = 15  # whitespace tokens; thesis 3.3: shorter ones are no arguments


def long_enough(documents: pd.DataFrame) -> pd.DataFrame:
    """The documents whose premise has at least 15 whitespace tokens (thesis 3.3). Counts what it leaves out."""
    tokens = np.array([_tokens(premise) for premise in documents["premise"]], dtype=int)
    collection = documents[tokens >= SHORTEST_PREMISE].reset_index(drop=True)
    log.info(
        "collection: %d of %d arguments (%d premises empty, %d shorter than %d words)",
        len(collection), len(documents), (tokens == 0).sum(), ((tokens > 0) & (tokens < SHORTEST_PREMISE)).sum(),
        SHORTEST_PREMISE,
    )  # fmt: skip
    return collection


def refuse_empty(collection: pd.DataFrame, documents: int) -> None:
    """Raises InputError: nothing is left of so many documents, or nothing with a conclusion."""
    if not collection["conclusion"].str.strip().any():
        expected = f"expected some with a conclusion and a premise of {SHORTEST_PREMISE} words or more"
        raise InputError(f"no argument is left of {documents}; {expected}: is this the args.me corpus?")


def _tokens(premise: str) -> int:
    """The number of whitespace tokens of a premise, counted up to 15 only; of a long one the beginning tells."""
    beginning = len(premise[:150].split(None, SHORTEST_PREMISE - 1))
    return beginning if beginning == SHORTEST_PREMISE else len(premise.split(None, SHORTEST_PREMISE - 1))
