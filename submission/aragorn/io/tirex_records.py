"""Parse the records of TIREx files, whose field names vary between TIRA's client and
ir_datasets."""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
from msgspec import UNSET

from aragorn.errors import InputError, abbreviate
from aragorn.io.input_files import ID_RULE, collect, is_invalid_id, iter_lines, yield_input_errors
from aragorn.io.json_errors import describe_line_error, scan
from aragorn.io.topics import describe_invalid_qid
from aragorn.io.unsupported_formats import BEIR_DOCUMENTS_HINT, BEIR_QUERIES_HINT, is_beir

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
RANK_LIMIT = 10**9  # ranks must be smaller


class _FieldError(Exception):
    """Error of a field with an invalid, contradictory or missing value."""


class _MissingFieldError(_FieldError):
    """Error of a record without a required field."""


def _parse_text(value: object) -> str:
    if type(value) is not str:
        raise _FieldError("expected a string")
    return value


def _parse_docno(value: object) -> str:
    if type(value) is not str and type(value) is not int:
        raise _FieldError("expected an id: a string or an integer")
    if is_invalid_id(str(value)):
        raise _FieldError(ID_RULE)
    return str(value)


def _parse_qid(value: object) -> str:
    qid = _parse_docno(value)
    if reason := describe_invalid_qid(qid):
        raise _FieldError(reason)
    return qid


def _parse_score(value: object) -> float:
    if type(value) in (int, float) or (type(value) is str and NUMBER.fullmatch(value)):
        try:
            score = float(value)  # type: ignore[arg-type]
        except OverflowError:
            score = math.inf
        if math.isfinite(score):
            return score
    raise _FieldError("expected a finite number, or no score in any line")


def _parse_rank(value: object) -> float:
    with suppress(_FieldError):
        rank = _parse_score(value)
        if 0 <= rank < RANK_LIMIT and rank.is_integer():
            return rank
    raise _FieldError(
        f"expected a non-negative integer below {RANK_LIMIT:,}, or no rank in any line"
    )


@dataclass(frozen=True)
class Field:
    """Field of a record, which fills the column `name` of a frame."""

    name: str
    aliases: tuple[str, ...]  # names of the field in a record
    parse: Callable[[object], str | float]
    is_optional: bool = False  # present in all records or in none


DOCNO = Field("docno", ("docno", "doc_id", "docid"), _parse_docno)
TEXT = Field("text", ("text", "default_text"), _parse_text)
QID = Field("qid", ("qid", "query_id"), _parse_qid)
QUERY = Field("query", ("query", "default_text", "text"), _parse_text)
# the field `text` of a candidate belongs to the document
CANDIDATE_QUERY = Field("query", ("query",), _parse_text)
RANK = Field("rank", ("rank",), _parse_rank, is_optional=True)
SCORE = Field("score", ("score",), _parse_score, is_optional=True)
FIELDS = (DOCNO, TEXT, QID, QUERY, RANK, SCORE)
_Record = msgspec.defstruct(
    "_Record",
    [(name, Any, UNSET) for name in sorted({alias for field in FIELDS for alias in field.aliases})],
    gc=False,
)


def read_records(file: Path, fields: Sequence[Field]) -> tuple[pd.DataFrame, list[str]]:
    """Read records as a frame with one column per field and the column `line`; return it and all
    issues."""
    rows, issues = collect(iter_records(file, fields))
    frame = pd.DataFrame(rows, columns=[*(field.name for field in fields), "line"])
    for field in fields:
        frame[field.name] = frame[field.name].astype(float if field.is_optional else object)
    if issues:
        return frame, issues
    optional_names = [field.name for field in fields if field.is_optional]
    return frame, [
        issue for name in optional_names if (issue := _describe_partial_field(file, frame, name))
    ]


@yield_input_errors
def iter_records(
    file: Path, fields: Sequence[Field]
) -> Iterator[tuple[str | float, ...] | InputError]:
    """Yield the field values (NaN: missing optional field) and line number of each record, or an
    error for an invalid line."""
    decode = msgspec.json.Decoder(_Record).decode
    for line_number, line in iter_lines(file):
        try:
            record = decode(line)
            row = (*(_get_field_value(record, field) for field in fields), line_number)
        except (ValueError, RecursionError, _FieldError) as error:
            reason = _describe_invalid_line(line, error, fields)
            yield InputError(f"{file}, line {line_number}{_format_ids_suffix(line)}: {reason}")
        else:
            yield row


def _get_field_value(record: msgspec.Struct, field: Field) -> str | float:
    """Return the value of a field under any of its names, NaN for a missing optional field; raise
    _FieldError if invalid."""
    values: dict[str, str | float] = {}
    for name in field.aliases:
        value = getattr(record, name)
        if value is not UNSET:
            try:
                values[name] = field.parse(value)
            except _FieldError as error:
                raise _FieldError(f"{name} is {_format_value(value)}; {error}") from None
    if not values:
        if field.is_optional:
            return math.nan
        aliases = f" (or {', '.join(field.aliases[1:])})" if field.aliases[1:] else ""
        raise _MissingFieldError(f"missing {field.name}{aliases}")
    if len(values) > 1 and len(set(values.values())) > 1:
        listing = " and ".join(
            f"{name} is {_format_value(value)}" for name, value in values.items()
        )
        raise _FieldError(f"{listing}; remove one")
    return next(iter(values.values()))


def _format_value(value: object) -> str:
    return (
        f"'{abbreviate(value)}'"
        if isinstance(value, str)
        else abbreviate(json.dumps(value, ensure_ascii=False))
    )


def _describe_invalid_line(line: bytes, error: Exception, fields: Sequence[Field]) -> str:
    """Describe why a line is invalid and, unless only a value is wrong, which format is
    expected."""
    if isinstance(error, _MissingFieldError) and is_beir(line):
        return BEIR_DOCUMENTS_HINT if DOCNO in fields else BEIR_QUERIES_HINT
    if isinstance(error, _FieldError) and not isinstance(error, _MissingFieldError):
        return str(error)
    if isinstance(error, _MissingFieldError) and b'"segments"' in line:
        return f"{error}; join the texts of `segments` into `text`"
    reason = str(error) if isinstance(error, _FieldError) else describe_line_error(line, error)
    return f"{reason}; expected a JSON object {{{', '.join(field.name for field in fields if not field.is_optional)}}} per line"


def _format_ids_suffix(line: bytes) -> str:
    """Return " (qid X, docno Y)" with the ids in a line, even if its JSON is malformed; "" if it
    has none."""
    try:
        record = msgspec.json.decode(scan(line).repaired_text, type=_Record)
    except (ValueError, RecursionError):
        return ""
    ids = []
    for field in (QID, DOCNO):
        with suppress(_FieldError):
            ids.append(f"{field.name} {abbreviate(str(_get_field_value(record, field)))}")
    return f" ({', '.join(ids)})" if ids else ""


def _describe_partial_field(file: Path, frame: pd.DataFrame, name: str) -> str:
    """Describe an optional field that only some records have; "" if all or none have it."""
    is_present = frame[name].notna()
    is_different = is_present != is_present.iloc[0] if len(frame) else is_present
    if not is_different.any():
        return ""
    row, first = frame[is_different].iloc[0], frame.iloc[0]
    line_with, line_without = (
        (first["line"], row["line"]) if is_present.iloc[0] else (row["line"], first["line"])
    )
    location = f"{file}, line {row['line']} (qid {abbreviate(row['qid'])}, docno {abbreviate(row['docno'])})"
    return f"{location}: line {line_with} has a {name} and line {line_without} has none; provide it in all lines or in none"
