"""The rows of published tables, with the numbers of their lines: what is wrong is named by file and line."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Literal

from submission.errors import InputError, short
from training.data.texts import text_of


def rows(file: Path, header: Sequence[str], separator: str, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header, each with the number of its line (of its last line, where a field has several).

    Args:
        file: UTF-8, with or without its mark, a line a row.
        header: the names of its columns, in which blanks do not count.
        separator: between fields.
        quoted: whether a field may stand in quotation marks; else they are characters like others.

    Raises:
        InputError: it cannot be read, has other columns, a row with more or fewer fields, or no rows.
    """
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    text = StringIO(text_of(file).removeprefix("\ufeff"), newline="")
    reader = csv.reader(text, delimiter=separator, quoting=quoting, strict=True)
    number = 0
    try:
        for number, fields in enumerate(reader):
            if number == 0 and _unspaced(fields) != _unspaced(header):
                raise InputError(f"{file}, line 1: expected the columns {', '.join(header)}")
            if len(fields) != len(header):
                counts = f"{len(fields)} fields; expected {len(header)}"
                raise InputError(f"{file}, line {reader.line_num}: {counts}: {', '.join(header)}")
            if number:
                yield reader.line_num, fields
    except csv.Error as error:
        raise InputError(f"{file}, line {reader.line_num}: no table ({error}); restore the file") from None
    if not number:
        raise InputError(f"{file}: no rows; expected a header and a line for each")


def number(file: Path, line: int, name: str, text: str, low: float, high: float) -> float:
    """A field's number from `low` to `high`. Raises InputError: it is none."""
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if not low <= found <= high:
        raise InputError(f"{file}, line {line}: {name} '{short(text)}'; expected a number from {low:g} to {high:g}")
    return found


def words(file: Path, line: int, text: str) -> str:
    """A field's text, one blank between its words. Raises InputError: it has none."""
    found = " ".join(text.split())
    if not found:
        raise InputError(f"{file}, line {line}: an empty text; expected words")
    return found


def listed(directory: Path, ending: str) -> list[Path]:
    """The files of a directory with that ending, by name. Raises InputError: there are none."""
    files = sorted(directory.glob(f"*.{ending}"))
    if not files:
        raise InputError(f"{directory}: no .{ending} files; expected the lists of arguments as they are published")
    return files


def once(file: Path, line: int, name: str, seen: set[str]) -> str:
    """A name that no earlier row has, which is then among those seen. Raises InputError: one has it."""
    if name in seen:
        raise InputError(f"{file}, line {line}: {short(name)} a second time; expected each once, restore the file")
    seen.add(name)
    return name


def _unspaced(names: Sequence[str]) -> list[str]:
    return [name.replace(" ", "") for name in names]
