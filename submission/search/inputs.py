"""Validate arguments and queries."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from submission.data.input_files import is_invalid_id
from submission.errors import InputError, UsageError, abbreviate
from submission.search.corpus import Corpus

MAX_CHARACTERS = 10_000  # of a query
SURROGATE = re.compile("[\ud800-\udfff]")
REPLACEMENTS = {"Cc": " ", "Cs": "\ufffd"}  # control characters; lone surrogates, from undecodable bytes of a command line
Arguments = pd.DataFrame | Iterable[str] | Path
Queries = pd.DataFrame | Iterable[str] | str


def build_corpus(arguments: Arguments) -> Corpus:
    """Build a corpus from a frame `docno premise` (optionally `conclusion`), numbered texts, or an input directory.

    Without a conclusion the premise is used as conclusion too, as for TIREx data.
    """
    if isinstance(arguments, Path):
        return Corpus.from_directory(arguments)
    if isinstance(arguments, str):
        raise UsageError("arguments is a single string; pass a list of texts, a data frame, or a Path")
    if not isinstance(arguments, pd.DataFrame):
        arguments = _number_texts(list(arguments), "docno", "premise")
    _check_columns(arguments, "arguments", ["docno", "premise"])
    if arguments.empty:
        raise InputError("arguments: empty; pass at least one")
    if "conclusion" not in arguments:
        arguments = arguments.assign(conclusion=arguments["premise"])
    frame = arguments[["docno", "conclusion", "premise"]].astype(object).reset_index(drop=True)
    _check_ids(frame["docno"], "arguments")
    for column in ("premise", "conclusion"):
        _check_strings(frame, "arguments", column)
        _check_surrogates(frame, column)
    return Corpus.from_frame(frame)


def build_topics(queries: Queries) -> pd.DataFrame:
    """Build topics `qid query` from a frame with these columns, or from one or more texts, which are numbered."""
    if not isinstance(queries, pd.DataFrame):
        queries = _number_texts([queries] if isinstance(queries, str) else list(queries), "qid", "query")
    _check_columns(queries, "queries", ["qid", "query"])
    frame = queries[["qid", "query"]].astype(object).reset_index(drop=True)
    _check_ids(frame["qid"], "queries")
    _check_strings(frame, "queries", "query")
    return frame.assign(query=[clean_query(query) for query in frame["query"]]).astype(object)


def clean_query(text: str) -> str:
    """Return a query on one line, like a title in a topics file. Raises UsageError if it is empty or too long."""
    text = text.strip()
    if len(text) > MAX_CHARACTERS:
        start = abbreviate(text[:40])
        raise UsageError(f"query has {len(text)} characters ('{start}…'); shorten it to at most {MAX_CHARACTERS}")
    query = " ".join("".join(REPLACEMENTS.get(unicodedata.category(character), character) for character in text).split())
    if not query:
        raise UsageError("empty query; enter at least one word, e.g. 'Should zoos be abolished?'")
    return query


def _number_texts(texts: Sequence[str], id_column: str, text_column: str) -> pd.DataFrame:
    return pd.DataFrame({id_column: [str(index) for index in range(1, len(texts) + 1)], text_column: texts}, dtype=object)


def _check_columns(frame: pd.DataFrame, label: str, columns: list[str]) -> None:
    for column in columns:
        if column not in frame:
            expected, existing = ", ".join(columns), ", ".join(map(str, frame))
            raise InputError(f"{label}: missing column {column}; expected {expected}, found {existing}")


def _check_ids(ids: pd.Series, label: str) -> None:
    for value in ids:
        if not isinstance(value, str) or is_invalid_id(value):
            text = abbreviate(repr(value))
            raise InputError(f"{label}: invalid {ids.name} {text}; use a string without whitespace and control characters")
    for duplicate in ids[ids.duplicated()]:
        raise InputError(f"{label}: duplicate {ids.name} {abbreviate(duplicate)}; ids must be unique")


def _check_strings(frame: pd.DataFrame, label: str, column: str) -> None:
    for name, value in zip(frame[frame.columns[0]], frame[column], strict=True):
        if not isinstance(value, str):
            raise InputError(f"{label}: {column} of {abbreviate(name)} is {abbreviate(repr(value))}; expected a string")


def _check_surrogates(frame: pd.DataFrame, column: str) -> None:
    for docno, text in zip(frame["docno"], frame[column], strict=True):
        if not text.isascii() and (match := SURROGATE.search(text)):
            problem = f"{column} of {abbreviate(docno)} has a lone surrogate at index {match.start()}"
            raise InputError(f"arguments: {problem}; remove it, UTF-8 cannot encode it")
