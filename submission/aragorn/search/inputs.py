"""Validate the arguments and queries that are passed from Python, a terminal or the web page."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

import pandas as pd

from aragorn.errors import InputError, UsageError, abbreviate
from aragorn.io.dataset import Dataset
from aragorn.io.document_store import Corpus, CorpusFrame
from aragorn.io.files import is_invalid_id

MAX_QUERY_CHARACTERS = 10_000
SURROGATE = re.compile("[\ud800-\udfff]")
# control characters; lone surrogates, from undecodable arguments of the command
REPLACEMENTS = {"Cc": " ", "Cs": "\ufffd"}
Arguments = pd.DataFrame | Mapping[Any, str] | Iterable[str] | Path
Queries = pd.DataFrame | Mapping[Any, str] | Iterable[str] | str


def build_corpus(arguments: Arguments) -> Corpus:
    """Build a corpus from a frame `docno premise` (optionally `conclusion`), texts, or an input.

    A list of texts is numbered from 1. A column `text` is read as `premise`. Without a column
    `conclusion`, the premise is also the conclusion, as in TIREx data. Texts may have any length.

    Raises:
        InputError: If there are no arguments, a column is missing, or an id or text is invalid.
        UsageError: If `arguments` is a single string.
    """
    if isinstance(arguments, Path):
        return Dataset(arguments, has_topics=False)
    if isinstance(arguments, str):
        raise UsageError(
            "arguments is a single string; pass a list of texts, a data frame, or a Path"
        )
    if not isinstance(arguments, pd.DataFrame):
        arguments = _make_frame(arguments, "docno", "premise")
    if "premise" not in arguments and "text" in arguments:
        arguments = arguments.rename(columns={"text": "premise"})
    frame = _validate_frame(
        arguments,
        "arguments",
        ["docno", "premise", *(["conclusion"] if "conclusion" in arguments else [])],
    )
    if frame.empty:
        raise InputError("arguments: empty; pass at least one argument")
    for column in frame.columns[1:]:
        for docno, text in zip(frame["docno"], frame[column], strict=True):
            if not text.isascii() and (match := SURROGATE.search(text)):
                problem = (
                    f"{column} of {abbreviate(docno)} has a lone surrogate at index {match.start()}"
                )
                raise InputError(f"arguments: {problem}; remove it because UTF-8 cannot encode it")
    if "conclusion" not in frame:
        frame = frame.assign(conclusion=frame["premise"])
    return CorpusFrame(frame[["docno", "conclusion", "premise"]])


def build_topics(queries: Queries) -> pd.DataFrame:
    """Build topics `qid query` from such a frame, texts by id, or texts numbered from 1."""
    if not isinstance(queries, pd.DataFrame):
        queries = _make_frame([queries] if isinstance(queries, str) else queries, "qid", "query")
    frame = _validate_frame(queries, "queries", ["qid", "query"])
    return frame.assign(query=[clean_query(query) for query in frame["query"]]).astype(object)


def clean_query(text: str) -> str:
    """Normalise a query to a single line; raise UsageError if it is empty or too long."""
    text = text.strip()
    if len(text) > MAX_QUERY_CHARACTERS:
        start = abbreviate(text[:40])
        raise UsageError(
            f"query has {len(text)} characters ('{start}…'); shorten it to at most "
            f"{MAX_QUERY_CHARACTERS}"
        )
    query = " ".join(
        "".join(
            REPLACEMENTS.get(unicodedata.category(character), character) for character in text
        ).split()
    )
    if not query:
        raise UsageError("empty query; enter at least one word, e.g. 'Should zoos be abolished?'")
    return query


def _make_frame(
    texts: Mapping[Any, str] | Iterable[str], id_column: str, text_column: str
) -> pd.DataFrame:
    items = texts.items() if isinstance(texts, Mapping) else enumerate(texts, 1)
    return pd.DataFrame([*items], columns=[id_column, text_column], dtype=object)


def _validate_frame(frame: pd.DataFrame, label: str, columns: list[str]) -> pd.DataFrame:
    """Return the id and text `columns` of a frame; raise InputError if a value is invalid."""
    for column in columns:
        if column not in frame:
            names = ", ".join(map(str, frame))
            expected = f"expected {', '.join(columns)} instead of {names}"
            raise InputError(f"{label}: missing column {column}; {expected}")
    frame = frame[columns].astype(object).reset_index(drop=True)
    values = [
        str(id_) if isinstance(id_, Integral) and not isinstance(id_, bool) else id_
        for id_ in frame[columns[0]]
    ]
    ids = frame[columns[0]] = pd.Series(values, dtype=object, name=columns[0])
    for value in ids:
        if not isinstance(value, str) or is_invalid_id(value):
            fix = "use an integer, or a string without whitespace or control characters"
            raise InputError(f"{label}: invalid {ids.name} {abbreviate(repr(value))}; {fix}")
    for duplicate in ids[ids.duplicated()]:
        raise InputError(
            f"{label}: duplicate {ids.name} {abbreviate(duplicate)}; ids must be unique"
        )
    for column in columns[1:]:
        for name, value in zip(ids, frame[column], strict=True):
            if not isinstance(value, str):
                problem = f"{column} of {abbreviate(name)} is {abbreviate(repr(value))}"
                raise InputError(f"{label}: {problem}; expected a string")
    return frame
