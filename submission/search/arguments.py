"""Arguments and questions as a program has them, frames or plain texts → the frames that systems take."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from submission.errors import InputError, UsageError, short
from submission.input.files import unfit
from submission.search.corpus import Corpus
from submission.search.question import clean

SURROGATE = re.compile("[\ud800-\udfff]")
Arguments = pd.DataFrame | Iterable[str] | Path
Questions = pd.DataFrame | Iterable[str] | str


def corpus_of(arguments: Arguments) -> Corpus:
    """A corpus of arguments.

    Args:
        arguments: a frame `docno premise`, with `conclusion` or without; texts, which get the docnos 1, 2, 3, …; or a
            directory. A text without a conclusion stands for both, as in TIREx's form.

    Raises:
        InputError: no such directory, no such columns, an id that a run cannot have, or one that occurs twice; a text that no
            file can hold.
    """
    if isinstance(arguments, Path):
        return Corpus.of_directory(arguments)
    if isinstance(arguments, str):
        raise UsageError("arguments are one text; expected a frame, several texts in a list, or the Path of a directory")
    if not isinstance(arguments, pd.DataFrame):
        arguments = _numbered(list(arguments), "docno", "premise")
    _refuse_others(arguments, "arguments", ["docno", "premise"])
    if arguments.empty:
        raise InputError("arguments: there are none; expected at least one")
    if "conclusion" not in arguments:
        arguments = arguments.assign(conclusion=arguments["premise"])
    frame = arguments[["docno", "conclusion", "premise"]].astype(object).reset_index(drop=True)
    _refuse_ids(frame["docno"], "arguments")
    for column in ("premise", "conclusion"):
        _refuse_no_text(frame, "arguments", column)
        _refuse_halves(frame, column)
    return Corpus.of_frame(frame)


def topics_of(questions: Questions) -> pd.DataFrame:
    """Topics `qid query`.

    Args:
        questions: a frame `qid query`; a text, or several, which get the qids 1, 2, 3, …

    Raises:
        InputError: no such columns, a faulty id. UsageError: an empty question, or one that is too long.
    """
    if not isinstance(questions, pd.DataFrame):
        questions = _numbered([questions] if isinstance(questions, str) else list(questions), "qid", "query")
    _refuse_others(questions, "questions", ["qid", "query"])
    frame = questions[["qid", "query"]].astype(object).reset_index(drop=True)
    _refuse_ids(frame["qid"], "questions")
    _refuse_no_text(frame, "questions", "query")
    return frame.assign(query=[clean(query) for query in frame["query"]]).astype(object)


def _numbered(texts: Sequence[str], name: str, text: str) -> pd.DataFrame:
    return pd.DataFrame({name: [str(number) for number in range(1, len(texts) + 1)], text: texts}, dtype=object)


def _refuse_others(frame: pd.DataFrame, what: str, columns: list[str]) -> None:
    missing = [column for column in columns if column not in frame]
    if missing:
        raise InputError(
            f"{what}: no column {missing[0]}; expected {', '.join(columns)}, there are {', '.join(map(str, frame))}"
        )


def _refuse_ids(ids: pd.Series, what: str) -> None:
    for one in ids:
        if not isinstance(one, str) or unfit(one):
            raise InputError(f"{what}: {ids.name} {short(repr(one))}; expected a text without blanks and control characters")
    repeated = ids[ids.duplicated()]
    if len(repeated):
        raise InputError(f"{what}: {ids.name} {short(repeated.iloc[0])} occurs twice; ids must be unique")


def _refuse_no_text(frame: pd.DataFrame, what: str, column: str) -> None:
    for name, one in zip(frame[frame.columns[0]], frame[column], strict=True):
        if not isinstance(one, str):
            raise InputError(f"{what}: {column} of {short(name)} is {short(repr(one))}; expected a text")


def _refuse_halves(frame: pd.DataFrame, column: str) -> None:
    """Refuse half a character: a Python string may have such, no file may."""
    for docno, text in zip(frame["docno"], frame[column], strict=True):
        if not text.isascii() and (found := SURROGATE.search(text)):
            what = f"{column} of {short(docno)} has a lone surrogate at character {found.start()}"
            raise InputError(f"arguments: {what}; expected a text that UTF-8 can write")
