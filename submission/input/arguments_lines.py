"""args.me with an argument a line: as the big file has it, or as the publishers' copy on a model hub has it.

{"id": …, "conclusion": …, "premises": [{"text": …}]}
{"id": …, "conclusion": …, "argument": …}: the text of the only premise
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from submission.errors import InputError, short
from submission.input.arguments import Argument, Premise
from submission.input.files import BOM, content, lines, reading, unfit
from submission.input.json_places import line_fault, survey

T = TypeVar("T")
ENDINGS = (".jsonl", ".jsonl.gz")
EXPECTED = 'expected {"id": …, "conclusion": …, "premises": [{"text": …}]} or {"id": …, "conclusion": …, "argument": …}'


class _Line(msgspec.Struct, gc=False):
    id: str
    conclusion: str
    premises: tuple[Premise, ...] | UnsetType = UNSET
    argument: str | UnsetType = UNSET


class _Named(msgspec.Struct):
    id: str


def has_lines(file: Path) -> bool:
    """Tell from its name whether a file has one argument per line."""
    return file.name.endswith(ENDINGS)


def arguments_as(kind: type[T], file: Path) -> list[T]:
    """The arguments of a file of either sort as a type that takes other fields of them.

    Raises:
        InputError: it cannot be read. ValueError: it is malformed, or a field is of another type.
    """
    if has_lines(file):
        decoder = msgspec.json.Decoder(kind)
        return [decoder.decode(text) for _, text in lines(file)]
    data = content(file)
    corpus: Any = msgspec.defstruct("Corpus", [("arguments", list[kind])], gc=False)  # type: ignore[valid-type]
    found: list[T] = msgspec.json.decode(data[len(BOM) :] if data[: len(BOM)] == BOM else data, type=corpus).arguments
    return found


def read(file: Path) -> tuple[list[Argument], list[str]]:
    """The arguments of a file, and all that is wrong with it by the line and, if there is one, the id."""
    found, faults = [], []
    decoder = msgspec.json.Decoder(_Line)
    try:
        for number, text in lines(file):
            try:
                found.append(_argument(decoder.decode(text)))
            except (ValueError, RecursionError) as error:
                fault = str(error) if isinstance(error, _RefusedError) else f"{line_fault(text, error)}; {EXPECTED}"
                faults.append(f"{file}, line {number}{_name(text)}: {fault}")
    except InputError as error:
        faults.append(str(error))
    return found, faults


def each(file: Path) -> Iterator[Argument]:
    """The arguments of a file one by one. Raises InputError: something is wrong with it; `read` says all that is."""
    decoder = msgspec.json.Decoder(_Line)
    with reading(file):
        for _, text in lines(file):
            yield _argument(decoder.decode(text))


class _RefusedError(ValueError):
    """Something that a decoder lets pass."""


def _argument(line: _Line) -> Argument:
    if unfit(line.id):
        raise _RefusedError(f"id '{short(line.id)}'; expected one without blanks and control characters, as run files need")
    if line.premises is not UNSET and line.argument is not UNSET:
        raise _RefusedError(f"both premises and argument; {EXPECTED}, not both")
    if line.argument is not UNSET:
        return Argument(line.id, line.conclusion, (Premise(line.argument),))
    if line.premises is UNSET:
        raise _RefusedError(f"neither premises nor argument; {EXPECTED}")
    return Argument(line.id, line.conclusion, line.premises)


def _name(text: bytes) -> str:
    """The id of a line's argument for messages; "" if it has none that can be shown."""
    try:
        docno = msgspec.json.decode(survey(text).text, type=_Named).id
    except (ValueError, RecursionError):
        return ""
    return "" if unfit(docno) else f" (id {short(docno)})"
