"""Validate TREC run files: errors that TIRA rejects, and stricter checks of ours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from math import inf, isfinite
from pathlib import Path
from typing import NamedTuple

from submission.data.id_matching import joined_by, share
from submission.data.runs import IDENTIFIER, RANK, RUNS, SCORE, Row, RunFile, parse_run
from submission.errors import InputError, counted, short
from submission.output.runs import TAG
from submission.rankings import DEEPEST

LARGEST, FEWEST_LINES, FEWEST_TOPICS = 75 * 2**20, 5, 3  # limits of TIRA
POSITIONAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
BLANK = re.compile(r"\s")
TIRA, OURS = "rejected by TIRA", "stricter than TIRA"  # levels
COMMENT = "comment or blank line"


class RunFault(NamedTuple):
    """An issue of a run file."""

    level: str  # TIRA or OURS
    kind: str  # issues of a category are summarised in one line
    line: int | None  # None: concerns the whole file
    words: str


Found = Iterator[RunFault]


def run_faults(path: Path, topics: Sequence[str] | None, docnos: Collection[str] | None) -> list[RunFault]:
    """Return all issues of a run, TIRA errors first, then by line.

    Args:
        path: Run file, plain or .gz, or a directory with run.txt.
        topics: Input qids in order; None: unknown.
        docnos: Docnos of the input; None: unknown.
    """
    try:
        run = parse_run(path)
    except InputError as error:
        return [RunFault(TIRA, "unreadable file", None, str(error))]
    issues = [
        *_of_directory(path),
        *_unreadable(run),
        *_skipped(run),
        *_written(run.rows),
        *_topics(run.rows, topics),
        *_documents(run.rows, docnos),
        *_ranks(run.rows),
        *_scores(run.rows),
        *_tags(run.rows),
        *_as_a_whole(run, topics),
    ]
    return sorted(issues, key=lambda issue: (issue.level == OURS, issue.line is None, issue.line))


def by_kind(path: Path, faults: Iterable[RunFault]) -> list[str]:
    """Summarise each category in one line: level, number of lines, first occurrence."""
    by_category: dict[tuple[str, str], list[RunFault]] = {}
    for issue in faults:
        by_category.setdefault((issue.level, issue.kind), []).append(issue)
    lines = []
    for (level, category), group in by_category.items():
        first = group[0]
        count = "" if first.line is None else f" in line {first.line}" if len(group) == 1 else f" in {len(group):,} lines"
        position = f"line {first.line}: " if len(group) > 1 and first.line is not None else ""
        lines.append(f"{path}: {level}: {category}{count}: {position}{first.words}")
    return lines


def _of_directory(path: Path) -> Found:
    present = [name for name in RUNS if path.is_dir() and (path / name).exists()]
    if len(present) > 1:
        yield RunFault(TIRA, "two run files in the directory", None, f"{' and '.join(present)}; delete one")


def _unreadable(run: RunFile) -> Found:
    """Report parse errors. TIRA accepts NaN scores and invisible characters in ids."""
    for issue in run.faults:
        is_accepted_by_tira = (
            _is_float(issue.value) if issue.kind == SCORE else issue.kind == IDENTIFIER and not BLANK.search(issue.value)
        )
        yield RunFault(OURS if is_accepted_by_tira else TIRA, issue.kind, issue.line, issue.words)


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _skipped(run: RunFile) -> Found:
    for line in run.skipped:
        yield RunFault(TIRA, COMMENT, line.number, f"{short(line.text)!r}; delete it before submitting")


def _written(rows: Sequence[Row]) -> Found:
    for row in rows:
        q0, rank = row.line.fields[1], row.line.fields[3]
        if not re.fullmatch(r"[+-]?[0-9]+", rank):
            yield RunFault(TIRA, RANK, row.number, f"rank {rank}; expected an integer without a decimal point")
        if " ".join(row.line.fields) != row.line.text:
            yield RunFault(OURS, "wrong field separator", row.number, "expected one space between fields")
        if q0 != "Q0":
            yield RunFault(OURS, "second field is not Q0", row.number, f"{short(q0)!r}; expected Q0")


def _topics(rows: Sequence[Row], topics: Sequence[str] | None) -> Found:
    seen: set[str] = set()
    for qid, group in groupby(rows, key=lambda row: row.qid):
        line_number = next(group).number
        if qid in seen:
            message = f"topic {short(qid)} is not contiguous; group its lines"
            yield RunFault(OURS, "topic not contiguous", line_number, message)
        elif topics is not None and qid not in topics:
            yield RunFault(OURS, "unknown topic", line_number, f"topic {short(qid)}")
        seen.add(qid)
    if topics is not None and seen and not seen & set(topics):
        message = f"{share(len(seen), len(seen), 'topic')} in the input.{joined_by(sorted(seen), topics)}"
        yield RunFault(OURS, "no topic in common with the input", None, message)


def _documents(rows: Sequence[Row], docnos: Collection[str] | None) -> Found:
    for row in rows:
        if docnos is not None and row.docno not in docnos:
            message = f"document {short(row.docno)}; check the corpus version"
            yield RunFault(OURS, "unknown document", row.number, message)


def _ranks(rows: Sequence[Row]) -> Found:
    last_rank: dict[str, int] = {}
    for row in rows:
        expected = last_rank.get(row.qid, 0) + 1
        if row.rank != expected:
            yield RunFault(OURS, "ranks not consecutive from 1", row.number, f"rank {row.rank}; expected {expected}")
        last_rank[row.qid] = row.rank


def _scores(rows: Sequence[Row]) -> Found:
    for _, group in groupby((row for row in rows if isfinite(row.score)), key=lambda row: row.qid):
        previous_score = inf
        for row in group:
            score = row.line.fields[4]
            if not POSITIONAL.fullmatch(score):
                message = f"score {score}; expected decimal notation, e.g. 0.00012"
                yield RunFault(OURS, "score not in decimal notation", row.number, message)
            if not row.score < previous_score:
                message = f"score {row.score:g} follows {previous_score:g}; evaluators break ties differently"
                yield RunFault(OURS, "scores not strictly decreasing", row.number, message)
            previous_score = row.score


def _tags(rows: Sequence[Row]) -> Found:
    for row in rows:
        tag = row.line.fields[5]
        if tag != rows[0].line.fields[5] or not TAG.fullmatch(tag):
            message = f"tag {short(tag)!r}; expected the same tag in all lines, made of letters, digits, - or _"
            yield RunFault(OURS, "inconsistent or invalid tag", row.number, message)


def _as_a_whole(run: RunFile, topics: Sequence[str] | None) -> Found:
    documents_per_topic, size = Counter(row.qid for row in run.rows), run.file.stat().st_size
    line_count = len({row.number for row in run.rows} | {issue.line for issue in run.faults})
    if line_count < FEWEST_LINES:
        yield RunFault(TIRA, "too few lines", None, f"{counted(line_count, 'line')}; expected at least {FEWEST_LINES}")
    if len(documents_per_topic) < FEWEST_TOPICS:
        message = f"{counted(len(documents_per_topic), 'topic')}; expected at least {FEWEST_TOPICS}"
        yield RunFault(TIRA, "too few topics", None, message)
    if size > LARGEST:
        yield RunFault(TIRA, "file too large", None, f"{size:,} bytes; expected at most {LARGEST:,}")
    for qid, length in documents_per_topic.items():
        if length > DEEPEST:
            message = f"topic {short(qid)} has {length} documents; expected at most {DEEPEST}"
            yield RunFault(OURS, "too many documents", None, message)
    order = list(documents_per_topic)
    if topics is not None and [qid for qid in topics if qid in order] != [qid for qid in order if qid in topics]:
        yield RunFault(OURS, "topics not in input order", None, "sort topics as in the input")
