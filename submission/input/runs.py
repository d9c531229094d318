"""TREC run files `qid Q0 docno rank score tag`: the one reader of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from submission.errors import InputError, short
from submission.input.columns import Line, column_lines, number, whole_number
from submission.input.files import named, unfit
from submission.input.order import Order
from submission.input.ordered import in_order

RUNS = ("run.txt", "run.txt.gz")  # in a directory, as TIRA hands runs over
COLUMNS = "`qid Q0 docno rank score tag`"
FIELDS, RANK, SCORE, IDENTIFIER, TWICE = (  # kinds of faults
    "another number of fields than six", "a rank that is no whole number", "a score that is no finite number",
    "an id with blanks or invisible characters", "a document twice in a topic",
)  # fmt: skip


class Row(NamedTuple):
    """A line of a run."""

    line: Line
    rank: int
    score: float

    @property
    def number(self) -> int:
        """The line's number in the file, from 1."""
        return self.line.number

    @property
    def qid(self) -> str:
        """The topic's id."""
        return self.line.fields[0]

    @property
    def docno(self) -> str:
        """The document's id."""
        return self.line.fields[2]


class Fault(NamedTuple):
    """A fault of a line."""

    kind: str  # faults of one kind are counted together
    line: int
    words: str
    value: str = ""  # of the field that is wrong


@dataclass(frozen=True)
class RunFile:
    """A run file's lines, and what is wrong with them."""

    file: Path
    rows: list[Row]  # of all lines of six fields with a rank; a score that is none is NaN, and among the faults
    faults: list[Fault]  # by line
    skipped: list[Line]  # blank lines and comments


def run_file(path: Path) -> Path:
    """Find the run that a path names or, in a directory, TIRA's run.txt or run.txt.gz. Raises InputError: there is none."""
    place = short(str(path), 300)
    try:
        files = named(path, *RUNS) if path.is_dir() else [path]
        if files and (path.is_dir() or path.exists()):
            return files[0]
    except (OSError, ValueError) as error:  # a name that no file can have, a folder that may not be listed
        raise InputError(f"{place}: no run found ({short(str(error))}); expected a run file, or a directory with one") from None
    raise InputError(f"{place}: no run found; expected a run file, or a directory with {' or '.join(RUNS)}")


def parse_run(path: Path) -> RunFile:
    """Parse a run file, plain or .gz, or that of a directory. Raises InputError: it cannot be read at all."""
    run = RunFile(run_file(path), [], [], [])
    first: dict[tuple[str, str], int] = {}
    for line in column_lines(run.file):
        if line.is_skipped:
            run.skipped.append(line)
            continue
        row, fault = _row(line)
        if row:
            run.rows.append(row)
            before = first.setdefault((line.fields[0], line.fields[2]), line.number)
            if before != line.number:
                words = (
                    f"document {short(row.docno)} is in topic {short(row.qid)} twice, first in line {before}; remove one line"
                )
                fault = Fault(TWICE, row.number, words)
        if fault:
            run.faults.append(fault)
    return run


def read_run(path: Path, order: Order = "auto") -> pd.DataFrame:
    """Read a run, plain or .gz, or that of a directory, as `qid docno rank score tag`.

    Topics come in the file's order, a topic's documents in that of `in_order`, with ranks 1..n.

    Raises:
        InputError: a malformed line, a document twice in a topic, no line, ranks and scores that contradict each other.
    """
    run = parse_run(path)
    if run.faults:
        more = (
            f" ({len(run.faults) - 1} more lines are faulty; `check --run` lists them by kind)" if len(run.faults) > 1 else ""
        )
        raise InputError(f"{run.file}, line {run.faults[0].line}: {run.faults[0].words}{more}")
    if not run.rows:
        raise InputError(f"{run.file}: an empty run; expected lines of {COLUMNS}")
    listed = pd.DataFrame(
        {
            "qid": [line.fields[0] for line, _, _ in run.rows],
            "docno": [line.fields[2] for line, _, _ in run.rows],
            "rank": [rank for _, rank, _ in run.rows],
            "score": [score for _, _, score in run.rows],
            "tag": [line.fields[5] for line, _, _ in run.rows],
            "line": [line.number for line, _, _ in run.rows],
        }
    )
    return in_order(listed, order, run.file)


def _row(line: Line) -> tuple[Row | None, Fault | None]:
    """A line's row, as far as it has one, and what is wrong with the line."""
    fields = line.fields
    if len(fields) != 6:
        return None, Fault(FIELDS, line.number, _fields(fields))
    rank, score = whole_number(fields[3]), number(fields[4])
    if rank is None:
        words = f"rank {short(fields[3])!r}; expected a whole number in the fourth of {COLUMNS}"
        return None, Fault(RANK, line.number, words, fields[3])
    row, fault = Row(line, rank, nan if score is None else score), None
    if score is None:
        words = f"score {short(fields[4])!r}; expected a finite number in the fifth of {COLUMNS}"
        fault = Fault(SCORE, line.number, words, fields[4])
    for name, identifier in (("qid", fields[0]), ("docno", fields[2])):
        if unfit(identifier):
            words = f"{name} {short(identifier)!r}; expected one without blanks and characters that cannot be seen"
            fault = Fault(IDENTIFIER, line.number, words, identifier)
    return row, fault


def _fields(fields: Sequence[str]) -> str:
    """Describe a line that has not six fields."""
    expected = f"{len(fields)} fields; expected six, {COLUMNS}"
    if len(fields) < 6:
        lacks = " (the tag is missing)" if len(fields) == 5 and whole_number(fields[3]) is not None else ""
        return f"{expected}{lacks}"
    if whole_number(fields[3]) is not None and number(fields[4]) is not None:
        return f"{expected}: remove {short(' '.join(fields[6:]))!r} behind the tag, or begin comments with #"
    if whole_number(fields[-3]) is not None and number(fields[-2]) is not None:
        return f"{expected}: docno {short(' '.join(fields[2:-3]))!r} has blanks; replace them in run and collection"
    return expected
