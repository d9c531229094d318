"""Read TREC runs: `qid Q0 docno rank score tag`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from submission.data.input_files import ID_RULE, named, unfit
from submission.data.ranking_order import Order
from submission.data.supplied_rankings import in_order
from submission.data.trec_lines import Line, column_lines, describe_field_count, number, whole_number
from submission.errors import InputError, short

RUNS = ("run.txt", "run.txt.gz")  # TIRA's names of a run in a directory
COLUMNS = "`qid Q0 docno rank score tag`"
FIELDS, RANK, SCORE = "wrong number of fields", "non-integer rank", "non-finite score"
IDENTIFIER, TWICE = "invalid id", "duplicate document"


class Row(NamedTuple):
    """Parsed line of a run."""

    line: Line
    number: int  # of the line, 1-based
    qid: str
    docno: str
    rank: int
    score: float


class Fault(NamedTuple):
    """Issue of a line."""

    kind: str  # issues of one kind are counted together
    line: int
    words: str
    value: str = ""  # value of the invalid field


@dataclass(frozen=True)
class RunFile:
    """Lines and issues of a run file."""

    file: Path
    rows: list[Row]  # lines with six fields and a valid rank; an invalid score is NaN and an issue
    faults: list[Fault]  # by line
    skipped: list[Line]  # blank lines and comments


def run_file(path: Path) -> Path:
    """Return the run at a path; in a directory, run.txt or run.txt.gz."""
    reason = ""
    try:
        files = named(path, *RUNS) if path.is_dir() else [path]
        if files and (path.is_dir() or path.exists()):
            return files[0]
    except (OSError, ValueError) as error:  # impossible name or unreadable directory
        reason = f" ({short(str(error))})"
    expected = f"expected a run file, or a directory with {' or '.join(RUNS)}"
    raise InputError(f"{short(str(path), 300)}: no run found{reason}; {expected}")


def parse_run(path: Path) -> RunFile:
    """Parse a run file, plain or gzipped, or the run of a directory; collect all issues."""
    run = RunFile(run_file(path), [], [], [])
    first_lines: dict[tuple[str, str], int] = {}
    for line in column_lines(run.file):
        if line.is_skipped:
            run.skipped.append(line)
            continue
        row, issue = _parse_line(line)
        if row:
            run.rows.append(row)
            first_line = first_lines.setdefault((row.qid, row.docno), line.number)
            if first_line != line.number:
                message = f"duplicate document {short(row.docno)} in topic {short(row.qid)} (first in line {first_line})"
                issue = Fault(TWICE, line.number, f"{message}; remove one")
        if issue:
            run.faults.append(issue)
    return run


def read_run(path: Path, order: Order = "auto") -> pd.DataFrame:
    """Read a run, plain or gzipped, or the run of a directory, as `qid docno rank score tag`, sorted by `in_order`."""
    run = parse_run(path)
    if run.faults:
        remaining = len(run.faults) - 1
        suffix = f" ({remaining} more invalid lines; `check --run` lists them)" if remaining else ""
        raise InputError(f"{run.file}, line {run.faults[0].line}: {run.faults[0].words}{suffix}")
    if not run.rows:
        raise InputError(f"{run.file}: empty run; expected lines {COLUMNS}")
    columns = ["qid", "docno", "rank", "score", "tag", "line"]
    rows = [(row.qid, row.docno, row.rank, row.score, row.line.fields[5], row.number) for row in run.rows]
    return in_order(pd.DataFrame(rows, columns=columns), order, run.file)


def _parse_line(line: Line) -> tuple[Row | None, Fault | None]:
    """Parse a line; return its row if usable, and its issue if any."""
    fields = line.fields
    if len(fields) != 6:
        hint = " (tag missing)" if len(fields) == 5 and whole_number(fields[3]) is not None else ""
        return None, Fault(FIELDS, line.number, describe_field_count(fields, COLUMNS, "run", _has_rank_and_score, hint))
    rank, score = whole_number(fields[3]), number(fields[4])
    if rank is None:
        message = f"invalid rank {short(fields[3])!r}; expected an integer in field 4 of {COLUMNS}"
        return None, Fault(RANK, line.number, message, fields[3])
    row, issue = Row(line, line.number, fields[0], fields[2], rank, nan if score is None else score), None
    if score is None:
        message = f"invalid score {short(fields[4])!r}; expected a finite number in field 5 of {COLUMNS}"
        issue = Fault(SCORE, line.number, message, fields[4])
    for name, identifier in (("qid", row.qid), ("docno", row.docno)):
        if unfit(identifier):
            issue = Fault(IDENTIFIER, line.number, f"invalid {name} {short(identifier)!r}; {ID_RULE}", identifier)
    return row, issue


def _has_rank_and_score(fields: Sequence[str]) -> bool:
    return whole_number(fields[0]) is not None and number(fields[1]) is not None
