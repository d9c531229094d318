"""Select the documents with long premises, which systems retrieve, and their texts; verify ids of
args.me.

The part of the ids of version 2020-04-01 after -A is a hash of premise and conclusion.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import numpy as np

from aragorn.errors import InputError
from aragorn.progress import track

if TYPE_CHECKING:
    import pandas as pd

VERSION = 1  # of the documents and texts that are selected

Fields = Literal["conclusion premise", "premise"]

log = logging.getLogger(__name__)

# whitespace tokens; shorter texts are not arguments (Entezari 2020, section 3.3)
MIN_PREMISE_WORDS = 15
HASHED_ID = re.compile(r"S[0-9a-f]{1,8}-A(0|[1-9a-f][0-9a-f]{0,7})")


def select_collection(documents: pd.DataFrame, min_words: int = MIN_PREMISE_WORDS) -> pd.DataFrame:
    """Return the documents with premises of `min_words` or more words; none if all are empty."""
    word_counts = count_words(documents["premise"], min_words)
    n_empty = int((word_counts == 0).sum())
    n_short = int(((word_counts > 0) & (word_counts < min_words)).sum())
    log_collection_size(len(word_counts), n_empty, n_short, min_words)
    return documents[(word_counts >= min_words) & bool(word_counts.any())].reset_index(drop=True)


def select_texts(documents: pd.DataFrame, fields: Fields) -> list[str]:
    """Return one text per document; TIREx documents have one text, which is used once."""
    if fields == "premise":
        return documents["premise"].tolist()
    rows = zip(documents["conclusion"], documents["premise"], strict=True)
    return [
        premise if conclusion == premise else f"{conclusion} {premise}"
        for conclusion, premise in rows
    ]


def count_words(premises: Iterable[str], min_words: int) -> np.ndarray:
    """Return the number of whitespace tokens of each premise (N,), up to max(1, min_words)."""
    limit = max(1, min_words)

    def count(premise: str) -> int:
        # this prefix of most long premises has enough words
        n_prefix_words = len(premise[: 10 * limit].split(None, limit - 1))
        return n_prefix_words if n_prefix_words == limit else len(premise.split(None, limit - 1))

    return np.array([count(premise) for premise in premises], dtype=int)


def log_collection_size(n_documents: int, n_empty: int, n_short: int, min_words: int) -> None:
    """Log the size of the collection; short premises are non-empty."""
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
    collection: pd.DataFrame, n_documents: int, min_words: int = MIN_PREMISE_WORDS
) -> None:
    """Raise InputError if a collection is empty or has only empty conclusions."""
    if collection["conclusion"].str.strip().any():
        return
    if not min_words:
        raise InputError(f"all {n_documents} documents are empty; expected documents with text")
    expected = f"expected a conclusion and a premise of at least {min_words} words"
    raise InputError(
        f"no usable argument among {n_documents}; {expected}; check that this is the args.me corpus"
    )


def find_mismatched_ids(documents: pd.DataFrame) -> tuple[pd.Series, int]:
    """Find documents whose texts differ from args.me 2020-04-01, to which the judgments refer.

    Returns the docnos whose hash is not that of the text, and the number of docnos with a hash (0
    for corpus version 1).
    """
    matches = [HASHED_ID.fullmatch(docno) for docno in documents["docno"]]
    documents = documents[[match is not None for match in matches]]
    expected_hashes = [match[1] for match in matches if match]
    texts = track(
        list(zip(documents["premise"], documents["conclusion"], strict=True)),
        "verifying ids",
        "arguments",
    )
    hashes = [
        f"{(31 * hash_java_string(premise) + hash_java_string(conclusion)) % 2**32:x}"
        for premise, conclusion in texts
    ]
    is_mismatched = np.array(hashes, dtype=object) != np.array(expected_hashes, dtype=object)
    return documents["docno"][is_mismatched], len(documents)


def hash_java_string(text: str) -> int:
    """Return Java's unsigned hashCode Σᵢ cᵢ · 31^(n - 1 - i) mod 2³² of n UTF-16 code units cᵢ."""
    code_units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2").astype(
        np.uint32
    )
    powers = np.full(len(code_units), 31, dtype=np.uint32)
    powers[:1] = 1
    return int((code_units * np.multiply.accumulate(powers)[::-1]).sum(dtype=np.uint32))
