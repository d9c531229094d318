"""Read published CSV, TSV and text files; report errors by file and line."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Literal

from submission.errors import InputError, abbreviate, unreadable_input
from submission.storage.atomic_files import read_regular


def read_rows(file: Path, header: Sequence[str], delimiter: str, has_quotes: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, fields) of each row below the header; the last line's number if a row spans lines.

    Args:
        file: UTF-8 file, with or without a byte-order mark.
        header: expected column names; spaces are ignored.
        delimiter: field delimiter.
        has_quotes: whether double quotes delimit fields.

    Raises:
        InputError: the file is unreadable, has other columns, a malformed row, or no rows.
    """
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE
    text = StringIO(read_text(file).removeprefix("\ufeff"), newline="")
    reader = csv.reader(text, delimiter=delimiter, quoting=quoting, strict=True)
    row_index = 0
    try:
        for row_index, fields in enumerate(reader):
            if row_index == 0 and _strip_spaces(fields) != _strip_spaces(header):
                raise InputError(f"{file}, line 1: unexpected header; expected the columns {', '.join(header)}")
            if len(fields) != len(header):
                counts = f"{len(fields)} fields; expected {len(header)}"
                raise InputError(f"{file}, line {reader.line_num}: {counts}: {', '.join(header)}")
            if row_index:
                yield reader.line_num, fields
    except csv.Error as error:
        raise InputError(f"{file}, line {reader.line_num}: malformed table ({error}); download the file again") from None
    if not row_index:
        raise InputError(f"{file}: no rows below the header; download the file again")


def number(file: Path, line: int, name: str, text: str, low: float, high: float) -> float:
    """Parse a number in [low, high]. Raises InputError if it is none."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise InputError(f"{file}, line {line}: {name} is '{abbreviate(text)}'; expected a number between {low:g} and {high:g}")
    return value


def parse_text(file: Path, line: int, text: str) -> str:
    """Return a text with single spaces between its words. Raises InputError if it is empty."""
    normalised = " ".join(text.split())
    if not normalised:
        raise InputError(f"{file}, line {line}: empty text; expected at least one word")
    return normalised


def list_files(directory: Path, suffix: str) -> list[Path]:
    """List the files with a suffix, sorted by name. Raises InputError if there are none."""
    files = sorted(directory.glob(f"*.{suffix}"))
    if not files:
        raise InputError(f"{directory}: no .{suffix} files; expected the published data set")
    return files


def check_unique(file: Path, line: int, name: str, seen: set[str]) -> str:
    """Add a name to `seen` and return it. Raises InputError if it was there."""
    if name in seen:
        raise InputError(f"{file}, line {line}: duplicate {abbreviate(name)}; download the file again")
    seen.add(name)
    return name


def read_text(file: Path) -> str:
    """Read a UTF-8 text file. Raises InputError."""
    try:
        return read_regular(file).decode("utf-8")
    except OSError as error:
        raise unreadable_input(error) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{file}, line {line}: not valid UTF-8 ({error.reason}); download the file again") from None


def _strip_spaces(names: Sequence[str]) -> list[str]:
    return [name.replace(" ", "") for name in names]
