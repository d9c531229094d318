"""The collection: the documents that are long enough. Nothing else is retrieved from."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import numpy as np
import pandas as pd

from submission.errors import InputError

log = logging.getLogger(__name__)

SHORTEST_PREMISE = 15  # whitespace tokens, of args.me; thesis 3.3: shorter ones are no arguments


def long_enough(documents: pd.DataFrame, shortest: int = SHORTEST_PREMISE) -> pd.DataFrame:
    """The documents whose premise has at least so many whitespace tokens; 0: all, if any has a text. Logs what is left out."""
    counted = counts(documents["premise"], shortest)
    without, short = int((counted == 0).sum()), int(((counted > 0) & (counted < shortest)).sum())
    tell(len(documents), without, short, shortest)
    return documents[(counted >= shortest) & bool(counted.any())].reset_index(drop=True)


def counts(premises: Iterable[str], shortest: int) -> np.ndarray:
    """The number of whitespace tokens of each premise (N,), counted up to the shortest, but at least to 1."""
    return np.array([_tokens(premise, max(1, shortest)) for premise in premises], dtype=int)


def tell(documents: int, without: int, short: int, shortest: int) -> None:
    """Log how many of so many documents are left out: those without a premise, and those with a shorter one."""
    if shortest:
        left = documents - without - short
        told = "collection: %d of %d arguments (%d premises empty, %d shorter than %d words)"
        log.info(told, left, documents, without, short, shortest)
    else:
        log.info("collection: all %d documents (%d texts empty)", documents, without)


def empty(documents: pd.DataFrame) -> int:
    """The number of documents without a premise."""
    return sum(not premise.strip() for premise in documents["premise"])


def refuse_empty(collection: pd.DataFrame, documents: int, shortest: int = SHORTEST_PREMISE) -> None:
    """Raises InputError: of so many documents nothing is left to retrieve, or nothing with a conclusion."""
    if collection["conclusion"].str.strip().any():
        return
    if not shortest:
        raise InputError(f"none of {documents} documents has a text; expected some with words to retrieve them by")
    expected = f"expected some with a conclusion and a premise of {shortest} words or more"
    raise InputError(f"no argument is left of {documents}; {expected}: is this the args.me corpus?")


def _tokens(premise: str, most: int) -> int:
    """The number of whitespace tokens of a premise, counted up to so many only; of a long one the beginning tells."""
    beginning = len(premise[: 10 * most].split(None, most - 1))
    return beginning if beginning == most else len(premise.split(None, most - 1))
