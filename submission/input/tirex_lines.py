"""The lines of TIREx's files: objects whose fields have several names, as TIRA's client and ir_datasets write them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
from msgspec import UNSET

from submission.errors import InputError, short
from submission.input.files import lines, unfit
from submission.input.json_places import line_fault, survey
from submission.input.other_forms import BEIR_DOCUMENTS, BEIR_QUERIES, is_beir
from submission.input.topics import qid_expected

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
RANKS = 10**9  # ranks are below


class _Line(msgspec.Struct, gc=False):
    """The fields that are read, whatever they hold; others are passed over."""

    docno: Any = UNSET
    doc_id: Any = UNSET
    docid: Any = UNSET
    qid: Any = UNSET
    query_id: Any = UNSET
    query: Any = UNSET
    text: Any = UNSET
    default_text: Any = UNSET
    rank: Any = UNSET
    score: Any = UNSET


class _ExpectedError(Exception):
    """The type that a field should have had."""


def _text(value: object) -> str:
    if type(value) is not str:
        raise _ExpectedError("expected a text")
    return value


def _docno(value: object) -> str:
    docno = _id(value)
    if unfit(docno):
        raise _ExpectedError("expected an id without blanks and control characters")
    return docno


def _qid(value: object) -> str:
    qid = _id(value)
    if expected := qid_expected(qid):
        raise _ExpectedError(expected)
    return qid


def _id(value: object) -> str:
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    raise _ExpectedError("expected an id: a text or a whole number")


def _score(value: object) -> float:
    if type(value) in (int, float) or (type(value) is str and NUMBER.fullmatch(value)):
        try:
            number = float(value)  # type: ignore[arg-type]
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise _ExpectedError("expected a finite number, or no such field in any line")


def _rank(value: object) -> float:
    try:
        rank = _score(value)
    except _ExpectedError:
        rank = -1.0
    if not (0 <= rank < RANKS and rank.is_integer()):
        raise _ExpectedError("expected a whole number from 0, or no such field in any line")
    return rank


@dataclass(frozen=True)
class Field:
    """A column of the frame: the names that a line may have it under, and what of a line's value stands in it."""

    name: str
    names: tuple[str, ...]
    value: Callable[[object], str | float]
    optional: bool = False  # all lines have it, or none has


DOCNO = Field("docno", ("docno", "doc_id", "docid"), _docno)
TEXT = Field("text", ("text", "default_text"), _text)
QID = Field("qid", ("qid", "query_id"), _qid)
QUERY = Field("query", ("query", "default_text", "text"), _text)
LISTED_QUERY = Field("query", ("query",), _text)  # the text beside it is the document's
RANK = Field("rank", ("rank",), _rank, optional=True)
SCORE = Field("score", ("score",), _score, optional=True)


def read(file: Path, fields: Sequence[Field]) -> pd.DataFrame:
    """A row for each line as a frame, with a column for each field and `line`. Raises InputError, as `rows` does."""
    frame = pd.DataFrame(list(rows(file, fields)), columns=[*(field.name for field in fields), "line"])
    for field in fields:
        if field.optional:
            frame[field.name] = frame[field.name].astype(float)
            _refuse_mixed(file, frame, field.name)
        else:
            frame[field.name] = frame[field.name].astype(object)
    return frame


def rows(file: Path, fields: Sequence[Field]) -> Iterator[tuple[str | float, ...]]:
    """What each line has in some fields, and its number; NaN stands for an optional field.

    Raises:
        InputError: a line that is no object in JSON, lacks a field, or holds something else than expected.
    """
    decoder = msgspec.json.Decoder(_Line)
    for number, text in lines(file):
        try:
            line = decoder.decode(text)
        except (ValueError, RecursionError) as error:
            place = f"{file}, line {number}{_name(text)}"
            raise InputError(f"{place}: {line_fault(text, error)}; {_expected(fields)}") from None
        try:
            yield (*(_held(line, field) for field in fields), number)
        except _ExpectedError as error:
            raise InputError(f"{file}, line {number}{_name(text)}: {_explained(text, str(error), fields)}") from None


def _held(line: _Line, field: Field) -> str | float:
    """Return the value of a field, by any of its names. Raises _ExpectedError: none, another type, or two values."""
    found: dict[str, str | float] = {}
    for name in field.names:
        value = getattr(line, name)
        if value is not UNSET:
            try:
                found[name] = field.value(value)
            except _ExpectedError as error:
                raise _ExpectedError(f"{name} holds {_shown(value)}; {error}") from None
    if not found:
        if field.optional:
            return math.nan
        others = f" (or {', '.join(field.names[1:])})" if field.names[1:] else ""
        raise _ExpectedError(f"no {field.name}{others}")
    if len(found) > 1 and len(set(found.values())) > 1:
        held = " and ".join(f"{name} holds {_shown(value)}" for name, value in found.items())
        raise _ExpectedError(f"{held}; expected the same in both, or one of them")
    return next(iter(found.values()))


def _shown(value: object) -> str:
    return f"'{short(value)}'" if isinstance(value, str) else short(json.dumps(value, ensure_ascii=False))


def _explained(text: bytes, what: str, fields: Sequence[Field]) -> str:
    """Describe the fault of a line, and what to do."""
    if not what.startswith("no "):
        return what
    if is_beir(text):
        return BEIR_DOCUMENTS if DOCNO in fields else BEIR_QUERIES
    return f"{what}; {_expected(fields)}"


def _expected(fields: Sequence[Field]) -> str:
    return f"expected {{{', '.join(field.name for field in fields if not field.optional)}}} in JSON"


def _name(text: bytes) -> str:
    """The ids of a line for messages, as far as it has some; of a line that is no JSON too."""
    try:
        line = msgspec.json.decode(survey(text).text, type=_Line)
    except (ValueError, RecursionError):
        return ""
    named = []
    for field in (QID, DOCNO):
        try:
            named.append(f"{field.name} {short(str(_held(line, field)))}")
        except _ExpectedError:
            continue
    return f" ({', '.join(named)})" if named else ""


def _refuse_mixed(file: Path, frame: pd.DataFrame, name: str) -> None:
    """Raises InputError where some lines have an optional field and others do not."""
    there = frame[name].notna()
    differs = there != there.iloc[0] if len(there) else there
    if differs.any():
        row, first = frame[differs].iloc[0], frame.iloc[0]
        having, lacking = (first, row) if there.iloc[0] else (row, first)
        raise InputError(
            f"{file}, line {row['line']} (qid {short(row['qid'])}, docno {short(row['docno'])}): "
            f"line {having['line']} has a {name} and line {lacking['line']} has none; expected it in all lines or in none"
        )
