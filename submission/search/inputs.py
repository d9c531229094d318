"""Validate arguments and queries passed from Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from submission.data.input_files import is_invalid_id
from submission.errors import InputError, UsageError, abbreviate
from submission.search.corpus import Corpus
from submission.search.query import clean_query

SURROGATE = re.compile("[\ud800-\udfff]")
Arguments = pd.DataFrame | Iterable[str] | Path
Queries = pd.DataFrame | Iterable[str] | str


def build_corpus(arguments: Arguments) -> Corpus:
    """Build a corpus from arguments.

    Args:
        arguments: a frame `docno premise` (optionally `conclusion`); texts, numbered 1, 2, 3, …; or an input directory.
            Without a conclusion the premise is used as conclusion too, as for TIREx data.

    Raises:
        InputError: directory not found, missing columns, an invalid or duplicate id, or a text that cannot be stored in a file.
        UsageError: a single text.
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


def build_topics(questions: Queries) -> pd.DataFrame:
    """Build topics `qid query` from queries.

    Args:
        questions: a frame `qid query`, or one or more texts, numbered 1, 2, 3, …

    Raises:
        InputError: missing columns or an invalid id.
        UsageError: an empty or too long query.
    """
    if not isinstance(questions, pd.DataFrame):
        questions = _number_texts([questions] if isinstance(questions, str) else list(questions), "qid", "query")
    _check_columns(questions, "queries", ["qid", "query"])
    frame = questions[["qid", "query"]].astype(object).reset_index(drop=True)
    _check_ids(frame["qid"], "queries")
    _check_strings(frame, "queries", "query")
    return frame.assign(query=[clean_query(query) for query in frame["query"]]).astype(object)


def _number_texts(texts: Sequence[str], name: str, text: str) -> pd.DataFrame:
    return pd.DataFrame({name: [str(index) for index in range(1, len(texts) + 1)], text: texts}, dtype=object)


def _check_columns(frame: pd.DataFrame, label: str, columns: list[str]) -> None:
    missing = [column for column in columns if column not in frame]
    if missing:
        raise InputError(
            f"{label}: missing column {missing[0]}; expected {', '.join(columns)}, found {', '.join(map(str, frame))}"
        )


def _check_ids(ids: pd.Series, label: str) -> None:
    for value in ids:
        if not isinstance(value, str) or is_invalid_id(value):
            raise InputError(
                f"{label}: invalid {ids.name} {abbreviate(repr(value))}; use a string without whitespace and control characters"
            )
    repeated = ids[ids.duplicated()]
    if len(repeated):
        raise InputError(f"{label}: duplicate {ids.name} {abbreviate(repeated.iloc[0])}; ids must be unique")


def _check_strings(frame: pd.DataFrame, label: str, column: str) -> None:
    for name, value in zip(frame[frame.columns[0]], frame[column], strict=True):
        if not isinstance(value, str):
            raise InputError(f"{label}: {column} of {abbreviate(name)} is {abbreviate(repr(value))}; expected a string")


def _check_surrogates(frame: pd.DataFrame, column: str) -> None:
    """Check for lone surrogates, which cannot be encoded in UTF-8."""
    for docno, text in zip(frame["docno"], frame[column], strict=True):
        if not text.isascii() and (match := SURROGATE.search(text)):
            problem = f"{column} of {abbreviate(docno)} has a lone surrogate at index {match.start()}"
            raise InputError(f"arguments: {problem}; remove it, UTF-8 cannot encode it")
