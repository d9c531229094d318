"""Select the collection: documents whose premises are long enough. Only these are retrieved."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import numpy as np
import pandas as pd

from submission.errors import InputError

log = logging.getLogger(__name__)

MIN_PREMISE_WORDS = 15  # whitespace tokens; shorter premises are not arguments (Entezari 2020, section 3.3)


def select_collection(documents: pd.DataFrame, min_words: int = MIN_PREMISE_WORDS) -> pd.DataFrame:
    """Return documents whose premise has `min_words` or more whitespace tokens (0: all, unless all are empty); log the rest."""
    word_counts = count_words(documents["premise"], min_words)
    log_collection_size(
        len(word_counts), int((word_counts == 0).sum()), int(((word_counts > 0) & (word_counts < min_words)).sum()), min_words
    )
    return documents[(word_counts >= min_words) & bool(word_counts.any())].reset_index(drop=True)


def count_words(premises: Iterable[str], shortest: int) -> np.ndarray:
    """Count the whitespace tokens of each premise (N,), up to max(1, shortest)."""
    return np.array([_count_words(premise, max(1, shortest)) for premise in premises], dtype=int)


def log_collection_size(documents: int, empty_count: int, short_count: int, shortest: int) -> None:
    """Log the size of the collection and the numbers of empty and of short premises."""
    if shortest:
        message = "collection: %d of %d arguments (excluded: %d with empty premise, %d shorter than %d words)"
        log.info(message, documents - empty_count - short_count, documents, empty_count, short_count, shortest)
    else:
        log.info("collection: all %d documents (%d empty)", documents, empty_count)


def count_empty(documents: pd.DataFrame) -> int:
    """Return the number of documents with an empty premise."""
    return sum(not premise.strip() for premise in documents["premise"])


def validate_collection(collection: pd.DataFrame, documents: int, shortest: int = MIN_PREMISE_WORDS) -> None:
    """Raise InputError if the collection, selected from `documents` documents, is empty or has no conclusion."""
    if collection["conclusion"].str.strip().any():
        return
    if not shortest:
        raise InputError(f"all {documents} documents are empty; expected documents with text")
    expected = f"expected a conclusion and a premise of at least {shortest} words"
    raise InputError(f"no usable argument among {documents}; {expected}; check that this is the args.me corpus")


def _count_words(premise: str, limit: int) -> int:
    """Count the whitespace tokens of a premise up to limit; a prefix suffices for long ones."""
    prefix_count = len(premise[: 10 * limit].split(None, limit - 1))
    return prefix_count if prefix_count == limit else len(premise.split(None, limit - 1))
