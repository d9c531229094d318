"""Ids of two files that were made for each other, or were not: how many both have, and what would join them if none."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from submission.errors import short

RULES: dict[str, Callable[[str], str]] = {
    "without leading zeros": lambda qid: qid.lstrip("0") or "0",
    "without what follows the first `.`": lambda qid: qid.partition(".")[0],
    "without the letters before its number": lambda qid: re.sub(r"^[^0-9]+(?=[0-9])", "", qid),
    "in lower case": str.lower,
}


def joined_by(ones: Collection[str], others: Collection[str]) -> str:
    """Say which plain rule makes some ids of two files, which have none in common, the same; "" if none does.

    One example is given: ` 01 without leading zeros would be 1: rename one side's topics.`
    """
    for words, rule in RULES.items():
        known = {rule(other): other for other in others}
        for one in ones:
            if rule(one) in known:
                changed = one if rule(one) != one else known[rule(one)]
                return f" {short(changed)} {words} would be {short(rule(changed))}: rename one side's topics."
    return ""


def share(number: int, total: int, what: str) -> str:
    """Say that so many of a file's things fail, in words that agree: `3 of its 15 topics are`, `none of its 15 topics is`.

    Args:
        number: of those that fail, 1 or more.
        total: of all.
        what: they are, in the singular.
    """
    if total == 1:
        return f"its only {what} is not"
    if number == total:
        return f"none of its {total} {what}s is"
    return f"{number} of its {total} {what}s {'is' if number == 1 else 'are'} not"
