"""Text files of columns between blanks or tabs, as TREC has them: a line a row, `#` begins a comment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import NamedTuple

from submission.input.files import text

LINE_END = re.compile(r"\r\n|\r|\n")
FIELD = re.compile(r"[^ \t\v\f]+")  # as C's isspace has it: other blanks of Unicode belong to a field, and are refused there
WHOLE = re.compile(r"[+-]?[0-9]{1,9}(\.0*)?")


class Line(NamedTuple):
    """A line and its fields."""

    number: int  # in the file, from 1
    text: str
    fields: list[str]

    @property
    def is_skipped(self) -> bool:
        """Tell whether a line is blank or a comment."""
        return not self.fields or self.fields[0].startswith("#")


def column_lines(file: Path) -> Iterator[Line]:
    """Yield all lines of a file, plain or .gz, with LF, CR LF or CR at their ends. Raises InputError: it cannot be read."""
    lines = LINE_END.split(text(file))
    for number, line in enumerate(lines if lines[-1] else lines[:-1], 1):
        yield Line(number, line, line.split() if line.isascii() else FIELD.findall(line))


def whole_number(field: str) -> int | None:
    """Parse a whole number, be it written 3 or 3.0; None: it is none."""
    if field.isdecimal() and field.isascii() and len(field) < 10:
        return int(field)
    return int(float(field)) if WHOLE.fullmatch(field) else None


def number(field: str) -> float | None:
    """Parse a finite number in positional or scientific notation; None: it is none."""
    if "_" in field or not field.isascii():  # Python's own notations
        return None
    try:
        value = float(field)
    except ValueError:
        return None
    return value if abs(value) < inf else None
