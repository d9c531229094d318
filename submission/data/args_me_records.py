"""Decode args.me arguments: JSON files, and JSON Lines in two layouts.

{"id": …, "conclusion": …, "premises": [{"text": …}]}
{"id": …, "conclusion": …, "argument": …}  the Hugging Face copy; text of the only premise
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from submission.data.input_files import ID_RULE, is_invalid_id, iter_lines, read_bytes, strip_bom, yielding_errors
from submission.data.json_errors import describe_line_error, scan
from submission.errors import InputError, abbreviate

T = TypeVar("T")
JSONL_EXTENSIONS = (".jsonl", ".jsonl.gz")
JSON_SCHEMA = 'expected {"arguments": [{"id": …, "conclusion": …, "premises": [{"text": …}]}]}'
EXPECTED = 'expected {"id": …, "conclusion": …, "premises": [{"text": …}]} or {"id": …, "conclusion": …, "argument": …}'


class Premise(msgspec.Struct, gc=False):
    """Premise of an argument."""

    text: str


class Argument(msgspec.Struct, gc=False):
    """Argument with the fields that are used."""

    id: str
    conclusion: str
    premises: tuple[Premise, ...]


class _JsonlRecord(msgspec.Struct, gc=False):
    id: str
    conclusion: str
    premises: tuple[Premise, ...] | UnsetType = UNSET
    argument: str | UnsetType = UNSET


class _IdOnly(msgspec.Struct):
    id: str


class _InvalidRecordError(ValueError):
    """Record that decodes but is invalid."""


def is_jsonl(file: Path) -> bool:
    """Return whether a file name has a JSON Lines extension."""
    return file.name.endswith(JSONL_EXTENSIONS)


def decode_arguments(kind: type[T], argument_type: Path) -> list[T]:
    """Decode the arguments of a corpus file as the given type.

    Raises:
        ValueError: If the file is malformed or a field has another type.
    """
    if is_jsonl(argument_type):
        decoder = msgspec.json.Decoder(kind)
        return [decoder.decode(line) for _, line in iter_lines(argument_type)]
    corpus: Any = msgspec.defstruct("Corpus", [("arguments", list[kind])], gc=False)  # type: ignore[valid-type]
    arguments: list[T] = msgspec.json.decode(strip_bom(read_bytes(argument_type)), type=corpus).arguments
    return arguments


@yielding_errors
def iter_jsonl(file: Path) -> Iterator[Argument | InputError]:
    """Yield the arguments of a JSON Lines file; for an invalid line an error with its number and id."""
    decode = msgspec.json.Decoder(_JsonlRecord).decode
    for line_number, line in iter_lines(file):
        try:
            argument = _to_argument(decode(line))
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, _InvalidRecordError) else f"{describe_line_error(line, error)}; {EXPECTED}"
            yield InputError(f"{file}, line {line_number}{id_suffix(line)}: {reason}")
        else:
            yield argument


def id_suffix(data: bytes | msgspec.Raw) -> str:
    """Return " (id X)" for messages about an argument; "" without a valid id."""
    try:
        try:
            docno = msgspec.json.decode(data, type=_IdOnly).id
        except msgspec.ValidationError:
            return ""
        except (ValueError, RecursionError):
            docno = msgspec.json.decode(scan(bytes(data)).repaired, type=_IdOnly).id
    except (ValueError, RecursionError):
        return ""
    return "" if is_invalid_id(docno) else f" (id {abbreviate(docno)})"


def _to_argument(record: _JsonlRecord) -> Argument:
    if is_invalid_id(record.id):
        raise _InvalidRecordError(f"invalid id '{abbreviate(record.id)}'; {ID_RULE}")
    if record.premises is not UNSET and record.argument is not UNSET:
        raise _InvalidRecordError(f"both premises and argument; remove one: {EXPECTED}")
    if record.argument is not UNSET:
        return Argument(record.id, record.conclusion, (Premise(record.argument),))
    if record.premises is UNSET:
        raise _InvalidRecordError(f"neither premises nor argument; {EXPECTED}")
    return Argument(record.id, record.conclusion, record.premises)
