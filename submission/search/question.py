"""A question as a person or a program writes it → a topic as a topics file would have it."""

from __future__ import annotations

import unicodedata

import pandas as pd

from submission.errors import UsageError, short

LONGEST = 10_000  # characters: of a longer text people do not know either what it asks
QID = "1"  # of a question that is asked alone


def clean(text: str) -> str:
    """A question in one line, as a topic's title is read; what XML cannot hold becomes a blank, or a mark for what is lost.

    Raises:
        UsageError: it is empty, or too long.
    """
    text = text.strip()
    if len(text) > LONGEST:
        raise UsageError(
            f"a question of {len(text)} characters ('{short(text[:40])}…'); expected at most {LONGEST}: shorten it"
        )
    question = " ".join("".join(_REPLACED.get(unicodedata.category(one), one) for one in text).split())
    if not question:
        raise UsageError("an empty question; expected words, as in 'Should zoos be abolished?'")
    return question


def one_topic(question: str) -> pd.DataFrame:
    """A clean question as topics `qid query`."""
    return pd.DataFrame({"qid": [QID], "query": [question]}, dtype=object)


_REPLACED = {"Cc": " ", "Cs": "\ufffd"}  # control characters; halves of characters, which a command line's bytes can give
