"""TREC judgments `topic 0 docno grade`: the one reader of them."""

from __future__ import annotations

import logging
from collections.abc import Set
from pathlib import Path

import pandas as pd

from submission.errors import InputError, counted, short
from submission.input.columns import Line, column_lines, number
from submission.input.files import unfit

log = logging.getLogger(__name__)

COLUMNS = "`topic 0 docno grade`"
UNJUDGED = -1  # pooled, but nobody judged it
RELEVANT = "a grade above 0"  # for measures that ask whether a document is relevant, not how much


def read_qrels(file: Path, documents: Set[str] | None = None) -> pd.DataFrame:
    """Read judgments, plain or .gz, as `qid docno rel`, in the file's order.

    Grades are whole numbers, be they written 4 or 4.0, or fractions. Of those below 0, -1 is no judgment and is left out; the
    others (-2 is Touché's spam) are judgments of documents that are not relevant, and become 0. How many there are is logged.

    Args:
        file: four columns.
        documents: docnos; judgments of other documents are left out.

    Raises:
        InputError: a malformed line, a document judged twice for a topic, nothing relevant left.
    """
    rows, first = [], dict[tuple[str, str], int]()
    for line in column_lines(file):
        if line.is_skipped:
            continue
        qid, docno, grade = _row(file, line)
        before = first.setdefault((qid, docno), line.number)
        if before != line.number:
            what = f"document {short(docno)} is judged twice for topic {short(qid)}, first in line {before}"
            raise InputError(f"{file}, line {line.number}: {what}; remove one line")
        rows.append((qid, docno, grade))
    qrels = pd.DataFrame(rows, columns=["qid", "docno", "rel"])
    unjudged = qrels["rel"] == UNJUDGED
    for faulty, words in (
        (unjudged, "of -1: no judgments, left out"),
        ((qrels["rel"] < 0) & ~unjudged, "below 0 other than -1: they count as 0"),
    ):
        if faulty.any():
            log.info("%s: %d of %s have a grade %s", file.name, faulty.sum(), counted(len(qrels), "line"), words)
    qrels = qrels[~unjudged].reset_index(drop=True)
    qrels["rel"] = qrels["rel"].clip(lower=0)
    if (qrels["rel"] % 1 == 0).all():
        qrels["rel"] = qrels["rel"].astype(int)
    else:
        log.info("%s: grades are fractions; measures of relevance or none take %s as relevant", file.name, RELEVANT)
    if documents is not None:
        qrels = _of_documents(qrels, documents, file)
    if not (qrels["rel"] > 0).any():
        raise InputError(f"{file}: no document with {RELEVANT}; are these the qrels of this corpus version?")
    return qrels


def _of_documents(qrels: pd.DataFrame, documents: Set[str], file: Path) -> pd.DataFrame:
    present = qrels["docno"].isin(documents)
    log.info("%s: %d of %d judgments are of documents in the input", file.name, present.sum(), len(qrels))
    if not present.any() and len(qrels) and documents:
        raise InputError(
            f"{file}: none of its {counted(len(qrels), 'judgment')} is of a document in the input (judged is "
            f"{short(qrels['docno'].iloc[0])}, in the input {short(min(documents))}); take the qrels of this corpus version"
        )
    return qrels[present].reset_index(drop=True)


def _row(file: Path, line: Line) -> tuple[str, str, float]:
    place = f"{file}, line {line.number}"
    if len(line.fields) != 4:
        raise InputError(f"{place}: {_fields(line)}")
    qid, _, docno, written = line.fields
    for name, identifier in (("topic", qid), ("docno", docno)):
        if unfit(identifier):
            raise InputError(f"{place}: {name} {short(identifier)!r}; expected one without characters that cannot be seen")
    grade = number(written)
    if grade is None:
        raise InputError(f"{place}: grade {short(written)!r}; expected a number, such as 2, in the fourth of {COLUMNS}")
    return qid, docno, grade


def _fields(line: Line) -> str:
    fields, expected = line.fields, f"{counted(len(line.fields), 'field')}; expected four, {COLUMNS}"
    if len(fields) == 3:
        return f"{expected}: BEIR's judgments lack the second field; put a 0 there, and remove the heading"
    if len(fields) > 4 and number(fields[3]) is not None:
        return f"{expected}: remove {short(' '.join(fields[4:]))!r} behind the grade, or begin comments with #"
    if len(fields) > 4 and number(fields[-1]) is not None:
        return f"{expected}: docno {short(' '.join(fields[2:-1]))!r} has blanks; replace them in qrels and collection"
    return expected
