"""Validate TREC run files: find errors for which TIRA rejects a run, and apply stricter checks."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from math import inf, isfinite
from pathlib import Path
from typing import NamedTuple

from aragorn.errors import MAX_NAMES_LISTED, InputError, abbreviate, abbreviate_list, pluralise
from aragorn.io.runs import ID, RANK, RUN_FILES, SCORE, RunFile, RunLine, parse_run, read_run
from aragorn.io.supplied_rankings import format_missing, suggest_normalisation
from aragorn.rankings import MAX_DEPTH, TAG_PATTERN

TIRA_MAX_BYTES, TIRA_MIN_LINES, TIRA_MIN_TOPICS = 75 * 2**20, 5, 3  # TIRA's limits
POSITIONAL_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
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
_tira_error, _stricter = partial(RunIssue, TIRA_ERROR), partial(RunIssue, STRICTER)
_of_topic = partial(RunIssue, STRICTER, is_of_topic=True)


def find_run_issues(
    path: Path, topics: Sequence[str] | None, docnos: Collection[str] | None
) -> list[RunIssue]:
    """Return all issues of a run, sorted by LEVELS, then by line.

    Args:
        path: Run file, plain or gzipped, or a directory with run.txt.
        topics: Topic ids in the order of the input; None if unknown.
        docnos: Docnos of the input; None if unknown.
    """
    try:
        run = parse_run(path)
    except InputError as error:
        return [RunIssue(TIRA_ERROR, "unreadable file", None, str(error))]
    issues = [
        *_find_directory_issues(path),
        *_find_parse_issues(run),
        *_find_format_issues(run.rows),
        *_find_topic_issues(run.rows, topics),
        *_find_row_issues(run.rows, docnos),
        *_find_file_issues(run, topics),
    ]
    return sorted(
        issues, key=lambda issue: (LEVELS.index(issue.level), issue.line is None, issue.line)
    )


def summarise_issues(path: Path, issues: Iterable[RunIssue]) -> list[str]:
    """Return one line per category of issues, with level, number of affected lines or topics and
    first message."""
    by_category: dict[tuple[str, str], list[RunIssue]] = {}
    for issue in issues:
        by_category.setdefault((issue.level, issue.category), []).append(issue)
    lines = []
    for (level, category), group in by_category.items():
        first_issue = group[0]
        line, unit = first_issue.line, "topics" if first_issue.is_of_topic else "lines"
        count = (
            f" in {len(group):,} {unit}"
            if len(group) > 1
            else ""
            if line is None
            else f" in line {line}"
        )
        position = f"line {line}: " if len(group) > 1 and line is not None else ""
        lines.append(f"{path}: {level}: {category}{count}: {position}{first_issue.message}")
    return lines


def _find_directory_issues(path: Path) -> Issues:
    file_names = [name for name in RUN_FILES if path.is_dir() and (path / name).exists()]
    if len(file_names) > 1:
        yield _tira_error(
            "two run files in the directory", None, f"{' and '.join(file_names)}; delete one"
        )


def _find_parse_issues(run: RunFile) -> Issues:
    """Yield an issue per invalid or skipped line; TIRA accepts NaN and infinite scores, and
    invisible characters in ids."""
    for issue in run.issues:
        is_accepted = issue.category == ID and not WHITESPACE.search(issue.value)
        if issue.category == SCORE:
            with suppress(ValueError):
                float(issue.value)
                is_accepted = True
        yield RunIssue(
            STRICTER if is_accepted else TIRA_ERROR, issue.category, issue.line, issue.message
        )
    for line in run.skipped_lines:
        yield _tira_error(
            "comment or blank line",
            line.number,
            f"{abbreviate(line.text)!r}; delete it before submitting",
        )


def _find_format_issues(rows: Sequence[RunLine]) -> Issues:
    for row in rows:
        q0, rank, line_number = row.line.fields[1], row.line.fields[3], row.line.number
        if not re.fullmatch(r"[+-]?[0-9]+", rank):
            yield _tira_error(
                RANK, line_number, f"rank {rank}; expected an integer without a decimal point"
            )
        if " ".join(row.line.fields) != row.line.text:
            yield _stricter(
                "wrong field separator", line_number, "expected one space between fields"
            )
        if q0 != "Q0":
            yield _stricter(
                "second field is not Q0", line_number, f"{abbreviate(q0)!r}; expected Q0"
            )


def _find_topic_issues(rows: Sequence[RunLine], topics: Sequence[str] | None) -> Issues:
    first_lines: dict[str, list[int]] = {}  # first line of each block of a topic's lines
    for qid, block in groupby(rows, lambda row: row.qid):
        first_lines.setdefault(qid, []).append(next(block).line.number)
    for qid, lines in first_lines.items():
        if topics is not None and qid not in topics:
            yield _of_topic(
                "unknown topic",
                lines[0],
                f"topic {abbreviate(qid)} is not in the input; remove its lines",
            )
        if len(lines) > 1:
            yield _of_topic(
                "topic not contiguous",
                lines[1],
                f"topic {abbreviate(qid)} is not contiguous; group its lines",
            )
    missing_qids = [qid for qid in topics or () if qid not in first_lines]
    if topics and first_lines and missing_qids:
        cause = f"{format_missing(len(missing_qids), len(topics), 'topic')} in the run"
        hint = suggest_normalisation(
            [qid for qid in first_lines if qid not in topics], missing_qids
        )
        examples = abbreviate_list(missing_qids, MAX_NAMES_LISTED)
        message = f"{cause} ({examples}); evaluators count them as 0 or skip them.{hint}"
        # no document may match a topic
        yield RunIssue(ACCEPTED, "topics without documents", None, message)


def _find_row_issues(rows: Sequence[RunLine], docnos: Collection[str] | None) -> Issues:
    """Yield issues of documents, ranks, scores and tags."""
    last_ranks: dict[str, int] = {}
    misnumbered_qids: set[str] = set()
    previous: RunLine | None = None  # last row with a finite score
    for row in rows:
        line_number, score, tag = row.line.number, *row.line.fields[4:]
        if docnos is not None and row.docno not in docnos:
            yield _stricter(
                "unknown document",
                line_number,
                f"document {abbreviate(row.docno)}; check the corpus version",
            )
        expected_rank = last_ranks.get(row.qid, 0) + 1
        if row.rank != expected_rank and row.qid not in misnumbered_qids:
            yield _of_topic(
                "ranks not consecutive from 1",
                line_number,
                f"rank {row.rank}; expected {expected_rank}",
            )
            misnumbered_qids.add(row.qid)
        last_ranks[row.qid] = row.rank
        if isfinite(row.score):
            if not POSITIONAL_NUMBER.fullmatch(score):
                message = f"score {score}; expected decimal notation, e.g. 0.00012"
                yield _stricter("score not in decimal notation", line_number, message)
            previous_score = previous.score if previous and previous.qid == row.qid else inf
            if not row.score < previous_score:
                message = f"score {row.score:g}; expected less than {previous_score:g} (evaluators break ties differently)"
                yield _stricter("scores not strictly decreasing", line_number, message)
            previous = row
        if tag != rows[0].line.fields[5] or not TAG_PATTERN.fullmatch(tag):
            message = f"tag {abbreviate(tag)!r}; expected the same tag in all lines, consisting of letters, digits, - and _"
            yield _stricter("inconsistent or invalid tag", line_number, message)


def _find_file_issues(run: RunFile, topics: Sequence[str] | None) -> Issues:
    topic_sizes, size = Counter(row.qid for row in run.rows), run.file.stat().st_size
    line_count = len({row.line.number for row in run.rows} | {issue.line for issue in run.issues})
    if line_count < TIRA_MIN_LINES:
        yield _tira_error(
            "too few lines",
            None,
            f"{pluralise(line_count, 'line')}; expected at least {TIRA_MIN_LINES}",
        )
    if len(topic_sizes) < TIRA_MIN_TOPICS:
        message = f"{pluralise(len(topic_sizes), 'topic')}; expected at least {TIRA_MIN_TOPICS}"
        yield _tira_error("too few topics", None, message)
    if size > TIRA_MAX_BYTES:
        yield _tira_error(
            "file too large", None, f"{size:,} bytes; expected at most {TIRA_MAX_BYTES:,}"
        )
    for qid, document_count in topic_sizes.items():
        if document_count > MAX_DEPTH:
            message = f"topic {abbreviate(qid)} has {document_count} documents; expected at most {MAX_DEPTH}"
            yield _of_topic("too many documents", None, message)
    if topics is not None and [qid for qid in topics if qid in topic_sizes] != [
        qid for qid in topic_sizes if qid in topics
    ]:
        yield _stricter("topics not in input order", None, "sort topics as in the input")
    try:
        if run.rows and not run.issues:
            read_run(run.file)  # as other commands do
    except InputError as error:
        yield _stricter(
            "ranks and scores disagree",
            None,
            f"{error} for `rank --input-run`, `evaluate` or `compare`",
        )
