"""Read published CSV, TSV and text files; report errors with file and line."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Literal

from aragorn.errors import InputError, abbreviate, build_unreadable_input_error, pluralise
from aragorn.storage.atomic_files import read_regular


@dataclass(frozen=True)
class Row:
    """A row of a table: its texts by column, and its place in errors."""

    file: Path
    line: int
    texts: dict[str, str]

    def build_error(self, problem: str, fix: str = "download the file again") -> InputError:
        """Build an error with the place of the row."""
        return InputError(self.file, f"line {self.line}", problem, fix)

    def get_number(self, column: str, low: float, high: float) -> float:
        """Return a number; raise InputError unless it is in [low, high]."""
        try:
            value = float(self.texts[column])
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            problem = f"{column} is '{abbreviate(self.texts[column])}'"
            raise self.build_error(problem, f"expected a number between {low:g} and {high:g}")
        return value

    def get_text(self, column: str, line_break: str = "\n") -> str:
        """Return a text with collapsed whitespace; raise InputError if no word remains."""
        text = " ".join(self.texts[column].replace(line_break, " ").split())
        if not text:
            raise self.build_error("empty text", "expected at least one word")
        return text

    def add_unique(self, name: str, names: set[str]) -> str:
        """Add `name` to `names` and return it; raise InputError if it is a duplicate."""
        if name in names:
            raise self.build_error(f"duplicate {abbreviate(name)}")
        names.add(name)
        return name


def read_rows(file: Path, header: Sequence[str], delimiter: str, has_quotes: bool) -> Iterator[Row]:
    """Yield each row of a UTF-8 file below its header, whose names may differ in spaces;
    `has_quotes`: double quotes delimit fields. The line of a row is its last one."""
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE
    text = StringIO(read_utf8(file).removeprefix("\ufeff"), newline="")
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
                yield Row(file, reader.line_num, dict(zip(header, fields, strict=True)))
    except csv.Error as error:
        raise InputError(
            f"{file}, line {reader.line_num}: malformed table ({error}); download the file again"
        ) from None
    if not row_index:
        raise InputError(f"{file}: no rows below the header; download the file again")


def find_files(directory: Path, suffix: str) -> list[Path]:
    """Return a directory's files with a suffix, sorted; raise InputError if there is none."""
    files = sorted(directory.glob(f"*.{suffix}"))
    if not files:
        raise InputError(
            f"{directory}: no .{suffix} files; download the published data set into this directory"
        )
    return files


def read_utf8(file: Path) -> str:
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
