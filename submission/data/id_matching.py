"""Explain why the ids of two files do not match."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from submission.errors import abbreviate

NORMALISATIONS: dict[str, Callable[[str], str]] = {
    "without leading zeros": lambda qid: qid.lstrip("0") or "0",
    "without the part after the first `.`": lambda qid: qid.partition(".")[0],
    "without the prefix before the number": lambda qid: re.sub(r"^[^0-9]+(?=[0-9])", "", qid),
    "in lower case": str.lower,
}


def suggest_normalisation(ids: Collection[str], other_ids: Collection[str]) -> str:
    """Return a hint to the normalisation under which two disjoint id sets overlap; "" if there is none.

    Example: " 01 without leading zeros equals 1; rename the topics of one file."
    """
    for description, normalise in NORMALISATIONS.items():
        originals = {normalise(other_id): other_id for other_id in other_ids}
        for id_ in ids:
            normalised = normalise(id_)
            if normalised in originals:
                example = id_ if normalised != id_ else originals[normalised]
                return f" {abbreviate(example)} {description} equals {abbreviate(normalised)}; rename the topics of one file."
    return ""


def count_missing(count: int, total: int, noun: str) -> str:
    """Format a positive count of missing ids, to be followed by "in the input": "3 of 15 topics are not"."""
    if total == 1:
        return f"the only {noun} is not"
    if count == total:
        return f"none of the {total} {noun}s is"
    return f"{count} of {total} {noun}s {'is' if count == 1 else 'are'} not"
