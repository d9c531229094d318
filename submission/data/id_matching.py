"""Explain why ids of two files do not match."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from submission.errors import short

RULES: dict[str, Callable[[str], str]] = {
    "without leading zeros": lambda qid: qid.lstrip("0") or "0",
    "without the part after the first `.`": lambda qid: qid.partition(".")[0],
    "without the prefix before the number": lambda qid: re.sub(r"^[^0-9]+(?=[0-9])", "", qid),
    "in lower case": str.lower,
}


def joined_by(ones: Collection[str], others: Collection[str]) -> str:
    """Return the normalisation under which two disjoint id sets overlap, as a hint; "" if none.

    Example: ` 01 without leading zeros equals 1; rename the topics of one file.`
    """
    for name, normalise in RULES.items():
        normalised = {normalise(other_id): other_id for other_id in others}
        for id_ in ones:
            if normalise(id_) in normalised:
                example = id_ if normalise(id_) != id_ else normalised[normalise(id_)]
                return f" {short(example)} {name} equals {short(normalise(example))}; rename the topics of one file."
    return ""


def share(number: int, total: int, what: str) -> str:
    """Format how many ids are missing, for "… in the input": 3 of 15 topics are not.

    Args:
        number: Number of missing ids, at least 1.
        total: Number of ids.
        what: Their noun, singular.
    """
    if total == 1:
        return f"the only {what} is not"
    if number == total:
        return f"none of the {total} {what}s is"
    return f"{number} of {total} {what}s {'is' if number == 1 else 'are'} not"
