"""Select the collection: the documents with sufficiently long premises, the only ones that systems
retrieve."""

import logging
from collections.abc import Iterable

import numpy as np
import pandas as pd

from aragorn.errors import InputError

VERSION = 1  # of the documents that are selected

log = logging.getLogger(__name__)

# whitespace tokens; shorter texts are not arguments (Entezari 2020, section 3.3)
MIN_PREMISE_WORDS = 15


def select_collection(documents: pd.DataFrame, min_words: int = MIN_PREMISE_WORDS) -> pd.DataFrame:
    """Return the documents whose premise has at least `min_words` whitespace tokens; none if all
    premises are empty."""
    word_counts = count_words(documents["premise"], min_words)
    n_empty = int((word_counts == 0).sum())
    n_short = int(((word_counts > 0) & (word_counts < min_words)).sum())
    log_collection_size(len(word_counts), n_empty, n_short, min_words)
    return documents[(word_counts >= min_words) & bool(word_counts.any())].reset_index(drop=True)


def count_words(premises: Iterable[str], min_words: int) -> np.ndarray:
    """Return the number of whitespace tokens of each premise (N,), counted up to max(1,
    min_words)."""
    limit = max(1, min_words)

    def count(premise: str) -> int:
        # this prefix of most long premises has enough words
        prefix_count = len(premise[: 10 * limit].split(None, limit - 1))
        return prefix_count if prefix_count == limit else len(premise.split(None, limit - 1))

    return np.array([count(premise) for premise in premises], dtype=int)


def log_collection_size(n_documents: int, n_empty: int, n_short: int, min_words: int) -> None:
    """Log the size of the collection; short premises are non-empty and have fewer than `min_words`
    words."""
    if min_words:
        message = (
            "collection: %d of %d arguments "
            "(excluded: %d with empty premise, %d shorter than %d words)"
        )
        size = n_documents - n_empty - n_short
        log.info(message, size, n_documents, n_empty, n_short, min_words)
    else:
        log.info("collection: all %d documents (%d empty)", n_documents, n_empty)


def validate_collection(
    collection: pd.DataFrame, document_count: int, min_words: int = MIN_PREMISE_WORDS
) -> None:
    """Raise InputError if a collection selected from `document_count` documents is empty or has
    only empty conclusions."""
    if collection["conclusion"].str.strip().any():
        return
    if not min_words:
        raise InputError(f"all {document_count} documents are empty; expected documents with text")
    expected = f"expected a conclusion and a premise of at least {min_words} words"
    raise InputError(
        f"no usable argument among {document_count}; {expected}; "
        "check that this is the args.me corpus"
    )
