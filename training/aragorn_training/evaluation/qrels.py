"""Read TREC qrels: `topic 0 docno grade`."""

import logging
from collections.abc import Set
from pathlib import Path

import pandas as pd
from aragorn.errors import InputError, abbreviate, pluralise
from aragorn.io.input_files import ID_RULE, is_invalid_id
from aragorn.io.trec_lines import TrecLine, describe_field_count, parse_float, read_trec_lines

log = logging.getLogger(__name__)

FORMAT = "`topic 0 docno grade`"
BEIR_HINT = "; in BEIR qrels, insert 0 as second field and remove the header"
# absolute values of grades other than 0; beyond, measures overflow or underflow
MIN_GRADE, MAX_GRADE = 1e-9, 1e9
UNJUDGED = -1  # grade of documents that were pooled but not judged


def read_qrels(file: Path, docnos: Set[str] | None = None) -> pd.DataFrame:
    """Read qrels, plain or gzipped, as `qid docno rel` in file order, restricted to `docnos` unless
    it is None.

    Grades are numbers. Judgments with grade -1 (unjudged) are dropped; other negative grades (-2:
    spam in Touché) become 0. InputError is raised for a malformed line, a duplicate judgment, or if
    no relevant document of `docnos` is left.
    """
    rows, first_lines = [], dict[tuple[str, str], int]()
    for line in read_trec_lines(file):
        if line.is_blank_or_comment:
            continue
        qid, docno, grade = _parse_line(file, line)
        first_line = first_lines.setdefault((qid, docno), line.number)
        if first_line != line.number:
            judgment = f"judgment of document {abbreviate(docno)} for topic {abbreviate(qid)}"
            raise InputError(
                f"{file}, line {line.number}: duplicate {judgment} (first in line {first_line}); remove one"
            )
        rows.append((qid, docno, grade))
    qrels = _clean_grades(pd.DataFrame(rows, columns=["qid", "docno", "rel"]), file)
    if docnos is not None:
        qrels = _restrict_to(qrels, docnos, file)
    if not (qrels["rel"] > 0).any():
        raise InputError(
            f"{file}: no relevant document (grade above 0); use the qrels of this corpus version"
        )
    return qrels


def _clean_grades(qrels: pd.DataFrame, file: Path) -> pd.DataFrame:
    """Drop unjudged documents, set other negative grades to 0, and convert grades to integers if
    all are whole numbers."""
    is_unjudged, total = qrels["rel"] == UNJUDGED, pluralise(len(qrels), "line")
    is_negative = (qrels["rel"] < 0) & ~is_unjudged
    if is_unjudged.any():
        log.info(
            "%s: dropped %d of %s: grade %d (unjudged)",
            file.name,
            is_unjudged.sum(),
            total,
            UNJUDGED,
        )
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
    log.info(
        "%s: %d of %d judgments refer to documents of the input",
        file.name,
        is_in_input.sum(),
        len(qrels),
    )
    if not is_in_input.any() and len(qrels) and docnos:
        examples = f"judged: {abbreviate(qrels['docno'].iloc[0])}, input: {abbreviate(min(docnos))}"
        reason = f"none of the {pluralise(len(qrels), 'judgment')} refers to a document of the input ({examples})"
        raise InputError(f"{file}: {reason}; use the qrels of this corpus version")
    return qrels[is_in_input].reset_index(drop=True)


def _parse_line(file: Path, line: TrecLine) -> tuple[str, str, float]:
    location = f"{file}, line {line.number}"
    if len(line.fields) != 4:
        hint = BEIR_HINT if len(line.fields) == 3 else ""
        reason = describe_field_count(
            line.fields, FORMAT, "qrels", lambda fields: parse_float(fields[0]) is not None, hint
        )
        raise InputError(f"{location}: {reason}")
    qid, _, docno, raw_grade = line.fields
    for name, identifier in (("topic", qid), ("docno", docno)):
        if is_invalid_id(identifier):
            raise InputError(f"{location}: invalid {name} {abbreviate(identifier)!r}; {ID_RULE}")
    grade = parse_float(raw_grade)
    if grade is None or (grade and not MIN_GRADE <= abs(grade) <= MAX_GRADE):
        expected = f"expected a number in field 4 of {FORMAT}: 0, or from {MIN_GRADE:g} to {MAX_GRADE:g} in absolute value"
        raise InputError(f"{location}: invalid grade {abbreviate(raw_grade)!r}; {expected}")
    return qid, docno, grade
