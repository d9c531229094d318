"""Clean a query so that it equals a title read from a topics file."""

from __future__ import annotations

import unicodedata

import pandas as pd

from submission.errors import UsageError, short

LONGEST = 10_000  # characters
QID = "1"  # qid of a single query

_REPLACED = {"Cc": " ", "Cs": "\ufffd"}  # control characters; lone surrogates, from undecodable bytes of a command line


def clean(text: str) -> str:
    """Return the query on one line; control characters become spaces, lone surrogates become U+FFFD.

    Raises:
        UsageError: the query is empty or too long.
    """
    text = text.strip()
    if len(text) > LONGEST:
        raise UsageError(f"query has {len(text)} characters ('{short(text[:40])}…'); shorten it to at most {LONGEST}")
    query = " ".join("".join(_REPLACED.get(unicodedata.category(character), character) for character in text).split())
    if not query:
        raise UsageError("empty query; enter at least one word, e.g. 'Should zoos be abolished?'")
    return query


def one_topic(question: str) -> pd.DataFrame:
    """Return a cleaned query as topics `qid query`."""
    return pd.DataFrame({"qid": [QID], "query": [question]}, dtype=object)
