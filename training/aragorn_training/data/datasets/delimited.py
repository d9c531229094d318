"""Read published CSV, TSV and text files; report errors with file and line."""

import csv
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Literal

from aragorn.errors import InputError, abbreviate, build_unreadable_input_error, pluralise
from aragorn.storage.atomic_files import read_regular


def read_rows(
    file: Path, header: Sequence[str], delimiter: str, has_quotes: bool
) -> Iterator[tuple[int, list[str]]]:
    """Yield each row of a UTF-8 file below its header, whose names may differ in spaces: the number
    of its last line in the file, and its fields; `has_quotes`: double quotes delimit fields."""
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE
    text = StringIO(read_text(file).removeprefix("\ufeff"), newline="")
    reader = csv.reader(text, delimiter=delimiter, quoting=quoting, strict=True)
    row_index = 0
    try:
        for row_index, fields in enumerate(reader):
            if row_index == 0 and _strip_spaces(fields) != _strip_spaces(header):
                raise InputError(
                    f"{file}, line 1: unexpected header; expected the columns {', '.join(header)}"
                )
            if len(fields) != len(header):
                fix = f"expected {len(header)}: {', '.join(header)}"
                raise InputError(
                    f"{file}, line {reader.line_num}: {pluralise(len(fields), 'field')}; {fix}"
                )
            if row_index:
                yield reader.line_num, fields
    except csv.Error as error:
        raise InputError(
            f"{file}, line {reader.line_num}: malformed table ({error}); download the file again"
        ) from None
    if not row_index:
        raise InputError(f"{file}: no rows below the header; download the file again")


def parse_number(file: Path, line: int, name: str, text: str, low: float, high: float) -> float:
    """Parse the value of a column `name`; raise InputError unless it is a number in [low, high]."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise InputError(
            f"{file}, line {line}: {name} is '{abbreviate(text)}'; expected a number between "
            f"{low:g} and {high:g}"
        )
    return value


def parse_text(file: Path, line: int, text: str) -> str:
    """Collapse the whitespace of a text; raise InputError if no word remains."""
    normalised_text = " ".join(text.split())
    if not normalised_text:
        raise InputError(f"{file}, line {line}: empty text; expected at least one word")
    return normalised_text


def find_files(directory: Path, suffix: str) -> list[Path]:
    """Return a directory's files with a suffix, sorted; raise InputError if there is none."""
    files = sorted(directory.glob(f"*.{suffix}"))
    if not files:
        raise InputError(
            f"{directory}: no .{suffix} files; download the published data set into this directory"
        )
    return files


def add_unique(file: Path, line: int, name: str, names: set[str]) -> str:
    """Add `name` to `names` and return it; raise InputError if it is a duplicate."""
    if name in names:
        raise InputError(
            f"{file}, line {line}: duplicate {abbreviate(name)}; download the file again"
        )
    names.add(name)
    return name


def read_text(file: Path) -> str:
    """Read a text file; raise InputError if it is unreadable or not UTF-8."""
    try:
        return read_regular(file).decode("utf-8")
    except OSError as error:
        raise build_unreadable_input_error(error) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(
            f"{file}, line {line}: not valid UTF-8 ({error.reason}); download the file again"
        ) from None


def _strip_spaces(names: Sequence[str]) -> list[str]:
    return [name.replace(" ", "") for name in names]
