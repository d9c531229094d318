"""List the faults of a run file by kind: what TIRA refuses, and what we require beyond that."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from math import inf, isfinite
from pathlib import Path
from typing import NamedTuple

from submission.errors import InputError, counted, short
from submission.input.joining import joined_by, share
from submission.input.runs import IDENTIFIER, RANK, RUNS, SCORE, Row, RunFile, parse_run
from submission.lists import DEEPEST
from submission.output.runs import TAG

LARGEST, FEWEST_LINES, FEWEST_TOPICS = 75 * 2**20, 5, 3  # of a run that TIRA takes: bytes, lines, topics
POSITIONAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
BLANK = re.compile(r"\s")
TIRA, OURS = "TIRA refuses", "we are stricter"  # levels
COMMENT = "a comment or a blank line"


class RunFault(NamedTuple):
    """Something that is wrong with a run."""

    level: str  # TIRA or OURS
    kind: str  # faults of one kind are told together
    line: int | None  # None: it is wrong with the file as a whole
    words: str


Found = Iterator[RunFault]


def run_faults(path: Path, topics: Sequence[str] | None, docnos: Collection[str] | None) -> list[RunFault]:
    """List all that is wrong with a run, what TIRA refuses first, then in the order of its lines.

    Args:
        path: a run file, plain or .gz, or a directory with TIRA's run.txt.
        topics: the qids of the input in their order; None: unknown.
        docnos: of all documents of the input; None: unknown.
    """
    try:
        run = parse_run(path)
    except InputError as error:
        return [RunFault(TIRA, "a file that cannot be read", None, str(error))]
    found = [
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
    return sorted(found, key=lambda fault: (fault.level == OURS, fault.line is None, fault.line))


def by_kind(path: Path, faults: Iterable[RunFault]) -> list[str]:
    """Tell each kind of fault in one line: its level, how many lines have it, and the first of them."""
    kinds: dict[tuple[str, str], list[RunFault]] = {}
    for fault in faults:
        kinds.setdefault((fault.level, fault.kind), []).append(fault)
    told = []
    for (level, kind), own in kinds.items():
        first = own[0]
        number = "" if first.line is None else f" in line {first.line}" if len(own) == 1 else f" in {len(own):,} lines"
        where = f"line {first.line}: " if len(own) > 1 and first.line is not None else ""
        told.append(f"{path}: {level}: {kind}{number}: {where}{first.words}")
    return told


def _of_directory(path: Path) -> Found:
    there = [name for name in RUNS if path.is_dir() and (path / name).exists()]
    if len(there) > 1:
        yield RunFault(TIRA, "two runs in a directory", None, f"{' and '.join(there)}; remove one of them")


def _unreadable(run: RunFile) -> Found:
    """List what the reader refuses; TIRA's accepts NaN as a score, and invisible characters in an id."""
    for fault in run.faults:
        passes = _is_float(fault.value) if fault.kind == SCORE else fault.kind == IDENTIFIER and not BLANK.search(fault.value)
        yield RunFault(OURS if passes else TIRA, fault.kind, fault.line, fault.words)


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _skipped(run: RunFile) -> Found:
    for line in run.skipped:
        yield RunFault(TIRA, COMMENT, line.number, f"{short(line.text)!r}; remove it before you submit")


def _written(rows: Sequence[Row]) -> Found:
    for row in rows:
        q0, rank = row.line.fields[1], row.line.fields[3]
        if not re.fullmatch(r"[+-]?[0-9]+", rank):
            yield RunFault(TIRA, RANK, row.number, f"rank {rank}; expected it without a decimal point")
        if " ".join(row.line.fields) != row.line.text:
            yield RunFault(OURS, "separators other than single blanks", row.number, "expected one blank between two fields")
        if q0 != "Q0":
            yield RunFault(OURS, "a second field other than Q0", row.number, f"{short(q0)!r}; expected Q0")


def _topics(rows: Sequence[Row], topics: Sequence[str] | None) -> Found:
    seen: set[str] = set()
    for qid, group in groupby(rows, key=lambda row: row.qid):
        number = next(group).number
        if qid in seen:
            words = f"topic {short(qid)} goes on after another one; expected its lines together"
            yield RunFault(OURS, "a topic in several places", number, words)
        elif topics is not None and qid not in topics:
            yield RunFault(OURS, "a topic that is not in the input", number, f"topic {short(qid)}")
        seen.add(qid)
    if topics is not None and seen and not seen & set(topics):
        words = f"{share(len(seen), len(seen), 'topic')} in the input.{joined_by(sorted(seen), topics)}"
        yield RunFault(OURS, "no topic of the input", None, words)


def _documents(rows: Sequence[Row], docnos: Collection[str] | None) -> Found:
    for row in rows:
        if docnos is not None and row.docno not in docnos:
            words = f"document {short(row.docno)}; is it of another corpus version?"
            yield RunFault(OURS, "a document that is not in the input", row.number, words)


def _ranks(rows: Sequence[Row]) -> Found:
    before: dict[str, int] = {}
    for row in rows:
        expected = before.get(row.qid, 0) + 1
        if row.rank != expected:
            words = f"rank {row.rank}; expected {expected}"
            yield RunFault(OURS, "ranks that do not rise by one from 1", row.number, words)
        before[row.qid] = row.rank


def _scores(rows: Sequence[Row]) -> Found:
    for _, group in groupby((row for row in rows if isfinite(row.score)), key=lambda row: row.qid):
        last = inf
        for row in group:
            score = row.line.fields[4]
            if not POSITIONAL.fullmatch(score):
                words = f"score {score}; expected digits and a point, as 0.00012"
                yield RunFault(OURS, "a score in another notation than the positional one", row.number, words)
            if not row.score < last:
                words = f"score {row.score:g} after {last:g}; evaluators differ in how they order ties"
                yield RunFault(OURS, "scores that do not fall strictly", row.number, words)
            last = row.score


def _tags(rows: Sequence[Row]) -> Found:
    for row in rows:
        tag = row.line.fields[5]
        if tag != rows[0].line.fields[5] or not TAG.fullmatch(tag):
            words = f"tag {short(tag)!r}; expected one tag in all lines, of letters, digits, - and _"
            yield RunFault(OURS, "another tag, or one of other characters", row.number, words)


def _as_a_whole(run: RunFile, topics: Sequence[str] | None) -> Found:
    listed, size = Counter(row.qid for row in run.rows), run.file.stat().st_size
    number = len({row.number for row in run.rows} | {fault.line for fault in run.faults})
    if number < FEWEST_LINES:
        yield RunFault(TIRA, "too few lines", None, f"{counted(number, 'line')}; expected {FEWEST_LINES} or more")
    if len(listed) < FEWEST_TOPICS:
        yield RunFault(TIRA, "too few topics", None, f"{counted(len(listed), 'topic')}; expected {FEWEST_TOPICS} or more")
    if size > LARGEST:
        yield RunFault(TIRA, "too large a file", None, f"{size:,} bytes; expected at most {LARGEST:,}")
    for qid, length in listed.items():
        if length > DEEPEST:
            words = f"{length} documents in topic {short(qid)}; expected at most {DEEPEST}"
            yield RunFault(OURS, "too many documents in a topic", None, words)
    if topics is not None and [qid for qid in topics if qid in listed] != [qid for qid in listed if qid in topics]:
        yield RunFault(OURS, "topics in another order than the input's", None, "expected the order of the topics' numbers")
