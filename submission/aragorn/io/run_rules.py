"""Check TREC run files: find errors for which TIRA rejects a run, and apply stricter rules."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from math import inf, isfinite
from pathlib import Path
from typing import NamedTuple

from aragorn.errors import MAX_NAMES_LISTED, InputError, abbreviate, abbreviate_list, pluralise
from aragorn.io.runs import (
    ID,
    RANK,
    SCORE,
    SKIPPED,
    RunError,
    RunRow,
    find_run,
    format_missing,
    read_run_rows,
    sort_run,
    suggest_normalisation,
)
from aragorn.rankings import MAX_DEPTH, TAG_PATTERN

# TIRA's limits
TIRA_MAX_BYTES = 75 * 2**20
TIRA_MIN_LINES = 5
TIRA_MIN_TOPICS = 3
POSITIONAL_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
INTEGER = re.compile(r"[+-]?[0-9]+")
WHITESPACE = re.compile(r"\s")
# two errors, a note
TIRA_ERROR, STRICTER, ACCEPTED = LEVELS = (
    "rejected by TIRA",
    "stricter than TIRA",
    "accepted by TIRA",
)


class RunIssue(NamedTuple):
    """Violation of TIRA's rules or of stricter ones in a run file, or property to note."""

    level: str  # one of LEVELS
    category: str  # issues of the same category are summarised in one line
    line: int | None  # None: the whole file
    message: str
    is_of_topic: bool = False  # whether it concerns a whole topic: one issue per topic and category


Issues = Iterator[RunIssue]
_tira_error = partial(RunIssue, TIRA_ERROR)
_stricter = partial(RunIssue, STRICTER)
_of_topic = partial(RunIssue, STRICTER, is_of_topic=True)


def find_run_issues(
    path: Path, topics: Sequence[str] | None, docnos: Collection[str] | None
) -> list[RunIssue]:
    """Return all issues of a run, or of run.txt in a directory, sorted by LEVELS, then by line.

    `topics` (in the order of the input) and `docnos` are the ids of the input; None: unknown.
    """
    errors: list[RunError] = []
    try:
        file = find_run(path)
        rows = [*read_run_rows(file, errors.append)]
    except InputError as error:
        return [RunIssue(TIRA_ERROR, "unreadable file", None, str(error))]
    qids = None if topics is None else dict.fromkeys(topics)  # ordered, found in constant time
    issues = [
        *map(_classify, errors),
        *_find_format_issues(rows),
        *_find_topic_issues(rows, qids),
        *_find_row_issues(rows, docnos),
        *_find_file_issues(file, rows, errors, qids),
    ]
    return sorted(
        issues, key=lambda issue: (LEVELS.index(issue.level), issue.line is None, issue.line)
    )


def summarise_issues(path: Path, issues: Iterable[RunIssue]) -> list[str]:
    """Return a line per category: level, number of lines or topics, first message."""
    by_category: dict[tuple[str, str], list[RunIssue]] = {}
    for issue in issues:
        by_category.setdefault((issue.level, issue.category), []).append(issue)
    lines = []
    for (level, category), group in by_category.items():
        line = group[0].line
        location, position = "", ""
        if len(group) > 1:
            location = f" in {len(group):,} {'topics' if group[0].is_of_topic else 'lines'}"
            position = "" if line is None else f"line {line}: "
        elif line is not None:
            location = f" in line {line}"
        lines.append(f"{path}: {level}: {category}{location}: {position}{group[0].message}")
    return lines


def _classify(error: RunError) -> RunIssue:
    """Return the issue of a line; TIRA accepts NaN, infinity, and invisible characters in ids."""
    is_accepted = error.category == ID and not WHITESPACE.search(error.value)
    if error.category == SCORE:
        try:
            float(error.value)
            is_accepted = True
        except ValueError:
            pass
    level = STRICTER if is_accepted else TIRA_ERROR
    return RunIssue(level, error.category, error.line, error.message)


def _find_format_issues(rows: Sequence[RunRow]) -> Issues:
    for row in rows:
        line_number, text, fields = row.line
        if not INTEGER.fullmatch(fields[3]):
            message = f"rank {fields[3]}; expected an integer without a decimal point"
            yield _tira_error(RANK, line_number, message)
        if " ".join(fields) != text:
            yield _stricter(
                "wrong field separator", line_number, "expected one space between fields"
            )
        if fields[1] != "Q0":
            message = f"{abbreviate(fields[1])!r}; expected Q0"
            yield _stricter("second field is not Q0", line_number, message)


def _find_topic_issues(rows: Sequence[RunRow], topics: Mapping[str, object] | None) -> Issues:
    first_lines: dict[str, list[int]] = {}  # first line of each block of a topic's lines
    for qid, block in groupby(rows, lambda row: row.qid):
        first_lines.setdefault(qid, []).append(next(block).line.line_number)
    for qid, lines in first_lines.items():
        topic = f"topic {abbreviate(qid)}"
        if topics is not None and qid not in topics:
            message = f"{topic} is not in the input; remove its lines"
            yield _of_topic("unknown topic", lines[0], message)
        if len(lines) > 1:
            message = f"{topic} is not contiguous; group its lines"
            yield _of_topic("topic not contiguous", lines[1], message)
    missing_qids = [qid for qid in topics or () if qid not in first_lines]
    if topics and first_lines and missing_qids:
        cause = f"{format_missing(len(missing_qids), len(topics), 'topic')} in the run"
        unknown_qids = [qid for qid in first_lines if qid not in topics]
        hint = suggest_normalisation(unknown_qids, missing_qids)
        examples = abbreviate_list(missing_qids, MAX_NAMES_LISTED)
        message = f"{cause} ({examples}); evaluators count them as 0 or skip them.{hint}"
        # no document may match a topic
        yield RunIssue(ACCEPTED, "topics without documents", None, message)


def _find_row_issues(rows: Sequence[RunRow], docnos: Collection[str] | None) -> Issues:
    last_ranks: dict[str, int] = {}
    misnumbered_qids: set[str] = set()
    previous: RunRow | None = None  # last row with a finite score
    for row in rows:
        line_number = row.line.line_number
        score, tag = row.line.fields[4:]
        if docnos is not None and row.docno not in docnos:
            message = f"document {abbreviate(row.docno)}; check the corpus version"
            yield _stricter("unknown document", line_number, message)
        expected_rank = last_ranks.get(row.qid, 0) + 1
        if row.rank != expected_rank and row.qid not in misnumbered_qids:
            message = f"rank {row.rank}; expected {expected_rank}"
            yield _of_topic("ranks not consecutive from 1", line_number, message)
            misnumbered_qids.add(row.qid)
        last_ranks[row.qid] = row.rank
        if isfinite(row.score):
            if not POSITIONAL_NUMBER.fullmatch(score):
                message = f"score {score}; expected decimal notation, e.g. 0.00012"
                yield _stricter("score not in decimal notation", line_number, message)
            previous_score = previous.score if previous and previous.qid == row.qid else inf
            if not row.score < previous_score:
                message = (
                    f"score {row.score:g}; expected less than {previous_score:g} "
                    "(evaluators break ties differently)"
                )
                yield _stricter("scores not strictly decreasing", line_number, message)
            previous = row
        if tag != rows[0].line.fields[5] or not TAG_PATTERN.fullmatch(tag):
            message = (
                f"tag {abbreviate(tag)!r}; expected the same tag in all lines, consisting of "
                "letters, digits, - and _"
            )
            yield _stricter("inconsistent or invalid tag", line_number, message)


def _find_file_issues(
    file: Path,
    rows: Sequence[RunRow],
    errors: Sequence[RunError],
    topics: Mapping[str, object] | None,
) -> Issues:
    line_errors = [error for error in errors if error.category != SKIPPED]
    topic_sizes = Counter(row.qid for row in rows)
    n_lines = len({row.line.line_number for row in rows} | {error.line for error in line_errors})
    size = file.stat().st_size
    if n_lines < TIRA_MIN_LINES:
        message = f"{pluralise(n_lines, 'line')}; expected at least {TIRA_MIN_LINES}"
        yield _tira_error("too few lines", None, message)
    if len(topic_sizes) < TIRA_MIN_TOPICS:
        message = f"{pluralise(len(topic_sizes), 'topic')}; expected at least {TIRA_MIN_TOPICS}"
        yield _tira_error("too few topics", None, message)
    if size > TIRA_MAX_BYTES:
        message = f"{size:,} bytes; expected at most {TIRA_MAX_BYTES:,}"
        yield _tira_error("file too large", None, message)
    for qid, n_documents in topic_sizes.items():
        if n_documents > MAX_DEPTH:
            message = (
                f"topic {abbreviate(qid)} has {n_documents} documents; expected at most {MAX_DEPTH}"
            )
            yield _of_topic("too many documents", None, message)
    if topics is not None:
        known_qids = [qid for qid in topic_sizes if qid in topics]
        if [qid for qid in topics if qid in topic_sizes] != known_qids:
            yield _stricter("topics not in input order", None, "sort topics as in the input")
    try:
        if rows and not line_errors:
            sort_run(file, rows)  # as other commands do
    except InputError as error:
        message = f"{error} for `rank --input-run`, `evaluate` or `compare`"
        yield _stricter("ranks and scores disagree", None, message)
