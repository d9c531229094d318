"""Read TREC runs: `qid Q0 docno rank score tag`."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from aragorn.errors import InputError, abbreviate, pluralise
from aragorn.io.input_files import ID_RULE, find_files, is_invalid_id
from aragorn.io.orders import Order
from aragorn.io.supplied_rankings import sort_ranking
from aragorn.io.trec_lines import (
    TrecLine,
    describe_field_count,
    parse_float,
    parse_integer,
    read_trec_lines,
)

RUN_FILES = ("run.txt", "run.txt.gz")  # TIRA's names of a run in a directory
FORMAT = "`qid Q0 docno rank score tag`"
# Categories of issues
FIELD_COUNT, RANK, SCORE = "wrong number of fields", "non-integer rank", "non-finite score"
ID, DUPLICATE = "invalid id", "duplicate document"


class RunLine(NamedTuple):
    """Parsed line of a run."""

    line: TrecLine
    qid: str
    docno: str
    rank: int
    score: float


class LineIssue(NamedTuple):
    """Issue found when parsing a line of a run."""

    category: str
    line: int
    message: str
    value: str = ""  # value of the invalid field


@dataclass(frozen=True)
class RunFile:
    """Parsed run file, which may have issues."""

    file: Path
    # lines with six fields and a valid rank; an invalid score is NaN and also an issue
    rows: list[RunLine]
    issues: list[LineIssue]  # in line order
    skipped_lines: list[TrecLine]  # blank lines and comments


def find_run(path: Path) -> Path:
    """Return the run file at a path; in a directory, run.txt or run.txt.gz."""
    reason = ""
    try:
        files = find_files([path], RUN_FILES[0]) if path.is_dir() else [path]
        if files and (path.is_dir() or path.exists()):
            return files[0]
    except (OSError, ValueError) as error:  # invalid name or unreadable directory
        reason = f" ({abbreviate(str(error))})"
    expected = f"expected a run file, or a directory with {' or '.join(RUN_FILES)}"
    raise InputError(f"{abbreviate(str(path), 300)}: no run found{reason}; {expected}")


def parse_run(path: Path) -> RunFile:
    """Parse a run file, plain or gzipped, or the run file in a directory; collect all issues."""
    run = RunFile(find_run(path), [], [], [])
    first_lines: dict[tuple[str, str], int] = {}
    for line in read_trec_lines(run.file):
        if line.is_blank_or_comment:
            run.skipped_lines.append(line)
            continue
        row, issue = _parse_line(line)
        if row:
            run.rows.append(row)
            first_line = first_lines.setdefault((row.qid, row.docno), line.number)
            if first_line != line.number:
                document = f"document {abbreviate(row.docno)} in topic {abbreviate(row.qid)}"
                issue = LineIssue(
                    DUPLICATE,
                    line.number,
                    f"duplicate {document} (first in line {first_line}); remove one",
                )
        if issue:
            run.issues.append(issue)
    return run


def read_run(path: Path, order: Order = "auto") -> pd.DataFrame:
    """Read a run, plain or gzipped, or the run in a directory, as `qid docno rank score tag`,
    sorted by `sort_ranking`."""
    run = parse_run(path)
    if run.issues:
        other_count = len(run.issues) - 1
        suffix = (
            f" (and {pluralise(other_count, 'other invalid line')}; `check --run` lists all)"
            if other_count
            else ""
        )
        raise InputError(f"{run.file}, line {run.issues[0].line}: {run.issues[0].message}{suffix}")
    if not run.rows:
        raise InputError(f"{run.file}: empty run; expected lines {FORMAT}")
    columns = ["qid", "docno", "rank", "score", "tag", "line"]
    rows = [
        (row.qid, row.docno, row.rank, row.score, row.line.fields[5], row.line.number)
        for row in run.rows
    ]
    return sort_ranking(pd.DataFrame(rows, columns=columns), order, run.file)


def _parse_line(line: TrecLine) -> tuple[RunLine | None, LineIssue | None]:
    """Parse a line; return its row (None if fields or rank are invalid) and its issue (None if it
    is valid)."""
    fields = line.fields
    if len(fields) != 6:
        hint = " (tag missing)" if len(fields) == 5 and parse_integer(fields[3]) is not None else ""

        def has_rank_and_score(values: Sequence[str]) -> bool:
            return parse_integer(values[0]) is not None and parse_float(values[1]) is not None

        return None, LineIssue(
            FIELD_COUNT,
            line.number,
            describe_field_count(fields, FORMAT, "run", has_rank_and_score, hint),
        )
    rank, score = parse_integer(fields[3]), parse_float(fields[4])
    if rank is None:
        message = f"invalid rank {abbreviate(fields[3])!r}; expected an integer of at most 9 digits in field 4 of {FORMAT}"
        return None, LineIssue(RANK, line.number, message, fields[3])
    row, issue = RunLine(line, fields[0], fields[2], rank, nan if score is None else score), None
    if score is None:
        message = f"invalid score {abbreviate(fields[4])!r}; expected a finite number in field 5 of {FORMAT}"
        issue = LineIssue(SCORE, line.number, message, fields[4])
    for name, identifier in (("qid", row.qid), ("docno", row.docno)):
        if is_invalid_id(identifier):
            issue = LineIssue(
                ID, line.number, f"invalid {name} {abbreviate(identifier)!r}; {ID_RULE}", identifier
            )
    return row, issue
