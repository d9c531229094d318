"""Validate TREC run files: errors that TIRA rejects, and stricter checks of ours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from math import inf, isfinite
from pathlib import Path
from typing import NamedTuple

from submission.data.id_matching import count_missing, suggest_normalisation
from submission.data.runs import ID, RANK, RUN_FILES, SCORE, RunFile, RunLine, parse_run
from submission.errors import InputError, abbreviate, pluralise
from submission.rankings import MAX_DEPTH, TAG_PATTERN

TIRA_MAX_BYTES, TIRA_MIN_LINES, TIRA_MIN_TOPICS = 75 * 2**20, 5, 3  # limits of TIRA
POSITIONAL_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
WHITESPACE = re.compile(r"\s")
TIRA_ERROR, STRICTER = "rejected by TIRA", "stricter than TIRA"  # levels


class RunIssue(NamedTuple):
    """An issue of a run file."""

    level: str  # TIRA_ERROR or STRICTER
    category: str  # issues of a category are summarised in one line
    line: int | None  # None: concerns the whole file
    message: str


Issues = Iterator[RunIssue]


def find_run_issues(path: Path, topics: Sequence[str] | None, docnos: Collection[str] | None) -> list[RunIssue]:
    """Return all issues of a run, TIRA errors first, then by line.

    Args:
        path: Run file, plain or .gz, or a directory with run.txt.
        topics: Input qids in order; None: unknown.
        docnos: Docnos of the input; None: unknown.
    """
    try:
        run = parse_run(path)
    except InputError as error:
        return [RunIssue(TIRA_ERROR, "unreadable file", None, str(error))]
    issues = [
        *_check_directory(path),
        *_check_unparsed(run),
        *_check_format(run.rows),
        *_check_topics(run.rows, topics),
        *_check_rows(run.rows, docnos),
        *_check_file(run, topics),
    ]
    return sorted(issues, key=lambda issue: (issue.level == STRICTER, issue.line is None, issue.line))


def summarise_issues(path: Path, issues: Iterable[RunIssue]) -> list[str]:
    """Summarise each category in one line: level, number of lines, first occurrence."""
    by_category: dict[tuple[str, str], list[RunIssue]] = {}
    for issue in issues:
        by_category.setdefault((issue.level, issue.category), []).append(issue)
    lines = []
    for (level, category), group in by_category.items():
        first = group[0]
        count = "" if first.line is None else f" in line {first.line}" if len(group) == 1 else f" in {len(group):,} lines"
        position = f"line {first.line}: " if len(group) > 1 and first.line is not None else ""
        lines.append(f"{path}: {level}: {category}{count}: {position}{first.message}")
    return lines


def _check_directory(path: Path) -> Issues:
    present = [name for name in RUN_FILES if path.is_dir() and (path / name).exists()]
    if len(present) > 1:
        yield RunIssue(TIRA_ERROR, "two run files in the directory", None, f"{' and '.join(present)}; delete one")


def _check_unparsed(run: RunFile) -> Issues:
    """Report parse errors and skipped lines. TIRA accepts NaN scores and invisible characters in ids."""
    for issue in run.issues:
        is_accepted = issue.category == ID and not WHITESPACE.search(issue.value)
        if issue.category == SCORE:
            with suppress(ValueError):
                float(issue.value)
                is_accepted = True
        yield RunIssue(STRICTER if is_accepted else TIRA_ERROR, issue.category, issue.line, issue.message)
    for line in run.skipped_lines:
        message = f"{abbreviate(line.text)!r}; delete it before submitting"
        yield RunIssue(TIRA_ERROR, "comment or blank line", line.number, message)


def _check_format(rows: Sequence[RunLine]) -> Issues:
    for row in rows:
        q0, rank, line_number = row.line.fields[1], row.line.fields[3], row.line.number
        if not re.fullmatch(r"[+-]?[0-9]+", rank):
            yield RunIssue(TIRA_ERROR, RANK, line_number, f"rank {rank}; expected an integer without a decimal point")
        if " ".join(row.line.fields) != row.line.text:
            yield RunIssue(STRICTER, "wrong field separator", line_number, "expected one space between fields")
        if q0 != "Q0":
            yield RunIssue(STRICTER, "second field is not Q0", line_number, f"{abbreviate(q0)!r}; expected Q0")


def _check_topics(rows: Sequence[RunLine], topics: Sequence[str] | None) -> Issues:
    seen_qids: set[str] = set()
    previous_qid = None
    for row in rows:
        if row.qid == previous_qid:
            continue
        topic = f"topic {abbreviate(row.qid)}"
        if row.qid in seen_qids:
            message = f"{topic} is not contiguous; group its lines"
            yield RunIssue(STRICTER, "topic not contiguous", row.line.number, message)
        elif topics is not None and row.qid not in topics:
            yield RunIssue(STRICTER, "unknown topic", row.line.number, topic)
        seen_qids.add(row.qid)
        previous_qid = row.qid
    if topics is not None and seen_qids and not seen_qids & set(topics):
        missing = count_missing(len(seen_qids), len(seen_qids), "topic")
        message = f"{missing} in the input.{suggest_normalisation(sorted(seen_qids), topics)}"
        yield RunIssue(STRICTER, "no topic in common with the input", None, message)


def _check_rows(rows: Sequence[RunLine], docnos: Collection[str] | None) -> Issues:
    """Check documents, ranks, scores and tags."""
    last_ranks: dict[str, int] = {}
    previous: RunLine | None = None  # last row with a finite score
    for row in rows:
        _, _, _, _, score, tag = row.line.fields
        if docnos is not None and row.docno not in docnos:
            message = f"document {abbreviate(row.docno)}; check the corpus version"
            yield RunIssue(STRICTER, "unknown document", row.line.number, message)
        expected = last_ranks.get(row.qid, 0) + 1
        if row.rank != expected:
            yield RunIssue(STRICTER, "ranks not consecutive from 1", row.line.number, f"rank {row.rank}; expected {expected}")
        last_ranks[row.qid] = row.rank
        if isfinite(row.score):
            if not POSITIONAL_NUMBER.fullmatch(score):
                message = f"score {score}; expected decimal notation, e.g. 0.00012"
                yield RunIssue(STRICTER, "score not in decimal notation", row.line.number, message)
            previous_score = previous.score if previous and previous.qid == row.qid else inf
            if not row.score < previous_score:
                message = f"score {row.score:g} follows {previous_score:g}; evaluators break ties differently"
                yield RunIssue(STRICTER, "scores not strictly decreasing", row.line.number, message)
            previous = row
        if tag != rows[0].line.fields[5] or not TAG_PATTERN.fullmatch(tag):
            message = f"tag {abbreviate(tag)!r}; expected the same tag in all lines, made of letters, digits, - or _"
            yield RunIssue(STRICTER, "inconsistent or invalid tag", row.line.number, message)


def _check_file(run: RunFile, topics: Sequence[str] | None) -> Issues:
    topic_sizes, size = Counter(row.qid for row in run.rows), run.file.stat().st_size
    line_count = len({row.line.number for row in run.rows} | {issue.line for issue in run.issues})
    if line_count < TIRA_MIN_LINES:
        message = f"{pluralise(line_count, 'line')}; expected at least {TIRA_MIN_LINES}"
        yield RunIssue(TIRA_ERROR, "too few lines", None, message)
    if len(topic_sizes) < TIRA_MIN_TOPICS:
        message = f"{pluralise(len(topic_sizes), 'topic')}; expected at least {TIRA_MIN_TOPICS}"
        yield RunIssue(TIRA_ERROR, "too few topics", None, message)
    if size > TIRA_MAX_BYTES:
        yield RunIssue(TIRA_ERROR, "file too large", None, f"{size:,} bytes; expected at most {TIRA_MAX_BYTES:,}")
    for qid, length in topic_sizes.items():
        if length > MAX_DEPTH:
            message = f"topic {abbreviate(qid)} has {length} documents; expected at most {MAX_DEPTH}"
            yield RunIssue(STRICTER, "too many documents", None, message)
    if topics is not None and [qid for qid in topics if qid in topic_sizes] != [qid for qid in topic_sizes if qid in topics]:
        yield RunIssue(STRICTER, "topics not in input order", None, "sort topics as in the input")
