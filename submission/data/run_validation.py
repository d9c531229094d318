"""Validate TREC run files: errors that TIRA rejects, and stricter checks of ours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
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
SKIPPED_LINE = "comment or blank line"


class RunIssue(NamedTuple):
    """An issue of a run file."""

    level: str  # TIRA or OURS
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
        *_check_parse_errors(run),
        *_check_skipped_lines(run),
        *_check_format(run.rows),
        *_check_topics(run.rows, topics),
        *_check_documents(run.rows, docnos),
        *_check_ranks(run.rows),
        *_check_scores(run.rows),
        *_check_tags(run.rows),
        *_check_file(run, topics),
    ]
    return sorted(issues, key=lambda issue: (issue.level == STRICTER, issue.line is None, issue.line))


def summarise_issues(path: Path, faults: Iterable[RunIssue]) -> list[str]:
    """Summarise each category in one line: level, number of lines, first occurrence."""
    by_category: dict[tuple[str, str], list[RunIssue]] = {}
    for issue in faults:
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


def _check_parse_errors(run: RunFile) -> Issues:
    """Report parse errors. TIRA accepts NaN scores and invisible characters in ids."""
    for issue in run.issues:
        is_accepted_by_tira = (
            _is_float(issue.value) if issue.kind == SCORE else issue.kind == ID and not WHITESPACE.search(issue.value)
        )
        yield RunIssue(STRICTER if is_accepted_by_tira else TIRA_ERROR, issue.kind, issue.line, issue.message)


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_skipped_lines(run: RunFile) -> Issues:
    for line in run.skipped_lines:
        yield RunIssue(TIRA_ERROR, SKIPPED_LINE, line.number, f"{abbreviate(line.text)!r}; delete it before submitting")


def _check_format(rows: Sequence[RunLine]) -> Issues:
    for row in rows:
        q0, rank = row.line.fields[1], row.line.fields[3]
        if not re.fullmatch(r"[+-]?[0-9]+", rank):
            yield RunIssue(TIRA_ERROR, RANK, row.line_number, f"rank {rank}; expected an integer without a decimal point")
        if " ".join(row.line.fields) != row.line.text:
            yield RunIssue(STRICTER, "wrong field separator", row.line_number, "expected one space between fields")
        if q0 != "Q0":
            yield RunIssue(STRICTER, "second field is not Q0", row.line_number, f"{abbreviate(q0)!r}; expected Q0")


def _check_topics(rows: Sequence[RunLine], topics: Sequence[str] | None) -> Issues:
    seen: set[str] = set()
    for qid, group in groupby(rows, key=lambda row: row.qid):
        line_number = next(group).line_number
        if qid in seen:
            message = f"topic {abbreviate(qid)} is not contiguous; group its lines"
            yield RunIssue(STRICTER, "topic not contiguous", line_number, message)
        elif topics is not None and qid not in topics:
            yield RunIssue(STRICTER, "unknown topic", line_number, f"topic {abbreviate(qid)}")
        seen.add(qid)
    if topics is not None and seen and not seen & set(topics):
        message = f"{count_missing(len(seen), len(seen), 'topic')} in the input.{suggest_normalisation(sorted(seen), topics)}"
        yield RunIssue(STRICTER, "no topic in common with the input", None, message)


def _check_documents(rows: Sequence[RunLine], docnos: Collection[str] | None) -> Issues:
    for row in rows:
        if docnos is not None and row.docno not in docnos:
            message = f"document {abbreviate(row.docno)}; check the corpus version"
            yield RunIssue(STRICTER, "unknown document", row.line_number, message)


def _check_ranks(rows: Sequence[RunLine]) -> Issues:
    last_rank: dict[str, int] = {}
    for row in rows:
        expected = last_rank.get(row.qid, 0) + 1
        if row.rank != expected:
            yield RunIssue(STRICTER, "ranks not consecutive from 1", row.line_number, f"rank {row.rank}; expected {expected}")
        last_rank[row.qid] = row.rank


def _check_scores(rows: Sequence[RunLine]) -> Issues:
    for _, group in groupby((row for row in rows if isfinite(row.score)), key=lambda row: row.qid):
        previous_score = inf
        for row in group:
            score = row.line.fields[4]
            if not POSITIONAL_NUMBER.fullmatch(score):
                message = f"score {score}; expected decimal notation, e.g. 0.00012"
                yield RunIssue(STRICTER, "score not in decimal notation", row.line_number, message)
            if not row.score < previous_score:
                message = f"score {row.score:g} follows {previous_score:g}; evaluators break ties differently"
                yield RunIssue(STRICTER, "scores not strictly decreasing", row.line_number, message)
            previous_score = row.score


def _check_tags(rows: Sequence[RunLine]) -> Issues:
    for row in rows:
        tag = row.line.fields[5]
        if tag != rows[0].line.fields[5] or not TAG_PATTERN.fullmatch(tag):
            message = f"tag {abbreviate(tag)!r}; expected the same tag in all lines, made of letters, digits, - or _"
            yield RunIssue(STRICTER, "inconsistent or invalid tag", row.line_number, message)


def _check_file(run: RunFile, topics: Sequence[str] | None) -> Issues:
    documents_per_topic, size = Counter(row.qid for row in run.rows), run.file.stat().st_size
    line_count = len({row.line_number for row in run.rows} | {issue.line for issue in run.issues})
    if line_count < TIRA_MIN_LINES:
        yield RunIssue(
            TIRA_ERROR, "too few lines", None, f"{pluralise(line_count, 'line')}; expected at least {TIRA_MIN_LINES}"
        )
    if len(documents_per_topic) < TIRA_MIN_TOPICS:
        message = f"{pluralise(len(documents_per_topic), 'topic')}; expected at least {TIRA_MIN_TOPICS}"
        yield RunIssue(TIRA_ERROR, "too few topics", None, message)
    if size > TIRA_MAX_BYTES:
        yield RunIssue(TIRA_ERROR, "file too large", None, f"{size:,} bytes; expected at most {TIRA_MAX_BYTES:,}")
    for qid, length in documents_per_topic.items():
        if length > MAX_DEPTH:
            message = f"topic {abbreviate(qid)} has {length} documents; expected at most {MAX_DEPTH}"
            yield RunIssue(STRICTER, "too many documents", None, message)
    order = list(documents_per_topic)
    if topics is not None and [qid for qid in topics if qid in order] != [qid for qid in order if qid in topics]:
        yield RunIssue(STRICTER, "topics not in input order", None, "sort topics as in the input")
