"""Read the lines, fields separated by whitespace, and numbers of TREC files (runs and qrels)."""

import re
from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from aragorn.errors import abbreviate, pluralise
from aragorn.io.files import read_text
from aragorn.io.formats import describe_text

LINE_END = re.compile(r"\r\n|\r|\n")
# separated by whitespace as in C's isspace; ids with other Unicode whitespace are invalid
INFORMATION_SEPARATORS = "\x1c\x1d\x1e\x1f"  # whitespace for str.split, but not for isspace
FIELD = re.compile(r"[^ \t\v\f]+")
# names of fields in headers
HEADER = re.compile(
    r"(q|query|topic|doc|corpus)([-_]?(id|no))?|rel\w*|grade|rank|score|tag|run", re.I
)
INTEGER = re.compile(r"[+-]?[0-9]{1,9}(\.0*)?")


class TrecLine(NamedTuple):
    """Line of a TREC file with its fields."""

    line_number: int  # 1-based
    text: str
    fields: list[str]

    @property
    def is_blank_or_comment(self) -> bool:
        """Whether the line is blank or a comment."""
        return not self.fields or self.fields[0].startswith("#")


def read_trec_lines(file: Path) -> Iterator[TrecLine]:
    """Yield the lines of a file, plain or gzipped, with LF, CRLF or CR line ends."""
    text = read_text(file)
    can_split = not any(separator in text for separator in INFORMATION_SEPARATORS)
    lines = LINE_END.split(text)
    for line_number, line in enumerate(lines if lines[-1] else lines[:-1], 1):
        fields = line.split() if can_split and line.isascii() else FIELD.findall(line)
        yield TrecLine(line_number, line, fields)


def parse_integer(field: str) -> int | None:
    """Parse an integer of at most 9 digits, perhaps with a point (3.0); None if invalid."""
    if field.isdecimal() and field.isascii() and len(field) < 10:
        return int(field)
    return int(float(field)) if INTEGER.fullmatch(field) else None


def parse_float(field: str) -> float | None:
    """Parse a finite decimal number; return None if invalid."""
    if "_" in field or not field.isascii():  # float() accepts 1_000 and non-ASCII digits
        return None
    try:
        value = float(field)
    except ValueError:
        return None
    return value if isfinite(value) else None


def has_rank_and_score(fields: Sequence[str]) -> bool:
    """Return whether fields begin with the rank and score of a run."""
    return parse_integer(fields[0]) is not None and parse_float(fields[1]) is not None


def recognise_format(line: TrecLine) -> str:
    """Return a hint at the format of a file from its first invalid line; "" if there is none."""
    if hint := describe_text(line.text.encode()):
        return f"{hint} to lines of fields separated by spaces, without header"
    # headers may have a 0 in field 2
    has_numbers = any(
        parse_float(field) is not None for field in (*line.fields[:1], *line.fields[2:])
    )
    if line.line_number == 1 and not has_numbers and any(map(HEADER.fullmatch, line.fields)):
        return "; this is a header: delete the line"
    return ""


def describe_field_count(
    fields: Sequence[str], layout: str, is_valid: Callable[[Sequence[str]], bool]
) -> tuple[str, str]:
    """Describe the wrong number of fields of a line; return the problem and a fix.

    `layout` names the expected fields, the third being the docno; `is_valid` returns whether the
    fields after the docno are valid.
    """
    names = layout.strip("`").split()
    fix = f"expected {len(names)}: {layout}"
    if len(fields) > len(names) and is_valid(fields[3:]):
        surplus = abbreviate(" ".join(fields[len(names) :]))
        fix += f"; remove {surplus!r} after the {names[-1]}, or start comment lines with #"
    elif len(fields) > len(names) and is_valid(fields[3 - len(names) :]):
        fix += "; docnos must not contain spaces"
    return pluralise(len(fields), "field"), fix
