"""Clean a query so that it equals a title read from a topics file."""

from __future__ import annotations

import unicodedata

import pandas as pd

from submission.errors import UsageError, abbreviate

MAX_CHARACTERS = 10_000  # characters
SINGLE_QUERY_QID = "1"  # qid of a single query

_REPLACEMENTS = {"Cc": " ", "Cs": "\ufffd"}  # control characters; lone surrogates, from undecodable bytes of a command line


def clean_query(text: str) -> str:
    """Return the query on one line; control characters become spaces, lone surrogates become U+FFFD.

    Raises:
        UsageError: the query is empty or too long.
    """
    text = text.strip()
    if len(text) > MAX_CHARACTERS:
        raise UsageError(
            f"query has {len(text)} characters ('{abbreviate(text[:40])}…'); shorten it to at most {MAX_CHARACTERS}"
        )
    query = " ".join("".join(_REPLACEMENTS.get(unicodedata.category(character), character) for character in text).split())
    if not query:
        raise UsageError("empty query; enter at least one word, e.g. 'Should zoos be abolished?'")
    return query


def build_topic(query: str) -> pd.DataFrame:
    """Return a cleaned query as topics `qid query`."""
    return pd.DataFrame({"qid": [SINGLE_QUERY_QID], "query": [query]}, dtype=object)
