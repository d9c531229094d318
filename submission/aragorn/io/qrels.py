"""Read TREC qrels: `topic 0 docno grade`."""

import logging
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from aragorn.errors import InputError, abbreviate, pluralise
from aragorn.io.files import ID_RULE, is_invalid_id
from aragorn.io.trec import describe_field_count, parse_float, read_trec_lines

log = logging.getLogger(__name__)

FORMAT = "`topic 0 docno grade`"
# absolute values of grades other than 0; beyond, measures overflow or underflow
MIN_GRADE = 1e-9
MAX_GRADE = 1e9
UNJUDGED = -1  # grade of documents that were pooled but not judged


class Judgment(NamedTuple):
    """Line of qrels."""

    line: int
    qid: str
    docno: str
    grade: float


def read_judgments(file: Path) -> Iterator[Judgment]:
    """Yield the judgments of a file, plain or gzipped; raise InputError for the first invalid
    line."""
    for line in read_trec_lines(file):
        if line.is_blank_or_comment:
            continue
        place = f"line {line.number}"
        if len(line.fields) != 4:
            reason, fix = describe_field_count(line.fields, FORMAT, _has_grade)
            hint = "; in BEIR qrels, insert 0 as second field and remove the header"
            raise InputError(file, place, reason, fix + (hint if len(line.fields) == 3 else ""))
        qid, _, docno, grade_text = line.fields
        for name, identifier in (("topic", qid), ("docno", docno)):
            if is_invalid_id(identifier):
                reason = f"invalid {name} {abbreviate(identifier)!r}"
                raise InputError(file, place, reason, ID_RULE)
        grade = parse_float(grade_text)
        if grade is None or (grade and not MIN_GRADE <= abs(grade) <= MAX_GRADE):
            reason = f"invalid grade {abbreviate(grade_text)!r}"
            fix = (
                f"expected a number in field 4 of {FORMAT}: 0, or from {MIN_GRADE:g} to "
                f"{MAX_GRADE:g} in absolute value"
            )
            raise InputError(file, place, reason, fix)
        yield Judgment(line.number, qid, docno, grade)


def _has_grade(fields: Sequence[str]) -> bool:
    return parse_float(fields[0]) is not None


def read_qrels(file: Path, docnos: Set[str] | None = None) -> pd.DataFrame:
    """Read qrels, plain or gzipped, as `qid docno rel` in file order, restricted to `docnos` unless
    it is None.

    Grades are numbers. Judgments with grade -1 (unjudged) are dropped; other negative grades (-2:
    spam in Touché) become 0. InputError is raised for a malformed line, a duplicate judgment, or
    if no relevant document of `docnos` is left.
    """
    rows = []
    first_lines: dict[tuple[str, str], int] = {}
    for line, qid, docno, grade in read_judgments(file):
        first_line = first_lines.setdefault((qid, docno), line)
        if first_line != line:
            judgment = f"judgment of document {abbreviate(docno)} for topic {abbreviate(qid)}"
            reason = f"duplicate {judgment} (first in line {first_line})"
            raise InputError(file, f"line {line}", reason, "remove one")
        rows.append((qid, docno, grade))
    qrels = _clean_grades(pd.DataFrame(rows, columns=["qid", "docno", "rel"]), file)
    if docnos is not None:
        qrels = _restrict_to(qrels, docnos, file)
    if not (qrels["rel"] > 0).any():
        reason = "no relevant document (grade above 0)"
        raise InputError(file, "", reason, "use the qrels of this corpus version")
    return qrels


def _clean_grades(qrels: pd.DataFrame, file: Path) -> pd.DataFrame:
    """Drop unjudged documents, set other negative grades to 0, and convert grades to integers if
    all are whole numbers."""
    total = pluralise(len(qrels), "line")
    is_unjudged = qrels["rel"] == UNJUDGED
    is_negative = (qrels["rel"] < 0) & ~is_unjudged
    if is_unjudged.any():
        message = "%s: dropped %d of %s: grade %d (unjudged)"
        log.info(message, file.name, is_unjudged.sum(), total, UNJUDGED)
    if is_negative.any():
        log.info("%s: negative grades set to 0 in %d of %s", file.name, is_negative.sum(), total)
    qrels = qrels[~is_unjudged].reset_index(drop=True)
    qrels["rel"] = qrels["rel"].clip(lower=0)
    if (qrels["rel"] % 1 == 0).all():
        return qrels.astype({"rel": int})
    log.info("%s: non-integer grades; binary measures count grades above 0 as relevant", file.name)
    return qrels


def _restrict_to(qrels: pd.DataFrame, docnos: Set[str], file: Path) -> pd.DataFrame:
    is_in_input = qrels["docno"].isin(docnos)
    message = "%s: %d of %d judgments refer to documents of the input"
    log.info(message, file.name, is_in_input.sum(), len(qrels))
    if not is_in_input.any() and len(qrels) and docnos:
        examples = f"judged: {abbreviate(qrels['docno'].iloc[0])}, input: {abbreviate(min(docnos))}"
        judgments = pluralise(len(qrels), "judgment")
        reason = f"none of the {judgments} refers to a document of the input ({examples})"
        raise InputError(file, "", reason, "use the qrels of this corpus version")
    return qrels[is_in_input].reset_index(drop=True)
