"""Read TREC qrels: `topic 0 docno grade`."""

import logging
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from aragorn.errors import InputError, abbreviate, pluralise
from aragorn.io.files import ID_RULE, is_invalid_id, quote_id
from aragorn.io.formats import describe_text
from aragorn.io.trec import (
    describe_field_count,
    has_rank_and_score,
    parse_float,
    read_trec_lines,
    recognise_format,
)

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
    iteration: str  # not used, but may number annotators or subtopics
    docno: str
    rel: float  # grade


def read_judgments(file: Path) -> Iterator[Judgment]:
    """Yield the judgments of a file; raise InputError for the first invalid line."""
    for line in read_trec_lines(file):
        if line.is_blank_or_comment:
            continue
        location = f"line {line.line_number}"
        if len(line.fields) != 4:
            reason, fix = describe_field_count(line.fields, FORMAT, _has_grade)
            hint = recognise_format(line)
            if _is_rank_score_tag(line.fields[3:]):
                hint = "; this is a run, not judgments"
            elif len(line.fields) == 3 and not describe_text(line.text.encode()):
                hint = "; in BEIR qrels, insert 0 as second field and remove the header"
            raise InputError(file, location, reason, f"{fix}{hint}")
        if all(field.endswith(",") for field in line.fields[:3]):
            fix = f"expected {FORMAT}{recognise_format(line)}"
            raise InputError(file, location, "commas between the fields", fix)
        qid, iteration, docno, grade_text = line.fields
        for name, identifier in (("topic", qid), ("docno", docno)):
            if is_invalid_id(identifier):
                reason = f"invalid {name} {quote_id(identifier)}"
                raise InputError(file, location, reason, ID_RULE)
        grade = parse_float(grade_text)
        if grade is None or (grade and not MIN_GRADE <= abs(grade) <= MAX_GRADE):
            reason = f"invalid grade {abbreviate(grade_text)!r}"
            fix = (
                f"expected a number in field 4 of {FORMAT}: 0, or from {MIN_GRADE:g} to "
                f"{MAX_GRADE:g} in absolute value"
            )
            raise InputError(file, location, reason, f"{fix}{recognise_format(line)}")
        yield Judgment(line.line_number, qid, iteration, docno, grade)


def _has_grade(fields: Sequence[str]) -> bool:
    return parse_float(fields[0]) is not None and not _is_rank_score_tag(fields)


def _is_rank_score_tag(fields: Sequence[str]) -> bool:
    return len(fields) == 3 and has_rank_and_score(fields)


def read_qrels(file: Path, docnos: Set[str] | None = None) -> pd.DataFrame:
    """Read qrels, plain or gzipped, as `qid docno rel` in file order, restricted to `docnos` unless
    it is None.

    Grades are numbers. Judgments with grade -1 (unjudged) are dropped; other negative grades (-2:
    spam in Touché) become 0. Repeated judgments are dropped. InputError is raised for a malformed
    line, contradictory judgments, or if no relevant document of `docnos` is left.
    """
    judgments = pd.DataFrame(read_judgments(file), columns=list(Judgment._fields))
    unique = _drop_repeated(judgments, file)
    qrels = _clean_grades(unique[["qid", "docno", "rel"]].reset_index(drop=True), file)
    if docnos is not None:
        qrels = _restrict_to(qrels, docnos, file)
    if not (qrels["rel"] > 0).any():
        reason = "no relevant document (grade above 0)"
        raise InputError(file, "", reason, "use the qrels of this corpus version")
    return qrels


def _drop_repeated(judgments: pd.DataFrame, file: Path) -> pd.DataFrame:
    """Drop repeated judgments of equal grade; raise InputError if grades of a document differ."""
    keys = ["qid", "docno"]
    is_repeated = judgments.duplicated(keys)
    if not is_repeated.any():
        return judgments
    first = judgments.groupby(keys)[["line", "rel", "iteration"]].transform("first")
    contradictory = np.flatnonzero(judgments["rel"] != first["rel"])
    if not len(contradictory):
        message = "%s: dropped %s (same topic, document and grade)"
        log.warning(message, file, pluralise(int(is_repeated.sum()), "repeated judgment"))
        return judgments[~is_repeated]
    row = judgments.iloc[contradictory[0]]
    line, grade, _ = first.iloc[contradictory[0]]
    reason = (
        f"grade {row['rel']:g} of document {abbreviate(row['docno'])} for topic "
        f"{abbreviate(row['qid'])} contradicts grade {grade:g} in line {line:.0f} "
        f"({pluralise(len(contradictory), 'contradictory judgment')} in the file)"
    )
    fix = "keep one judgment per topic and document"
    if (judgments["iteration"] != first["iteration"]).iloc[contradictory].any():
        fix += ": field 2 differs; select the lines of one annotator or subtopic by it"
    raise InputError(file, f"line {row['line']}", reason, fix)


def _clean_grades(qrels: pd.DataFrame, file: Path) -> pd.DataFrame:
    """Drop unjudged documents, clip grades at 0, make them integers if all are whole."""
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
    message = "%s: dropped %s of %s of documents outside the input"
    n_judgments = pluralise(len(qrels), "judgment")
    log.info(message, file.name, f"{(~is_in_input).sum():,}", n_judgments)
    if not is_in_input.any() and len(qrels) and docnos:
        examples = f"judged: {abbreviate(qrels['docno'].iloc[0])}, input: {abbreviate(min(docnos))}"
        reason = f"none of the {n_judgments} refers to a document of the input ({examples})"
        raise InputError(file, "", reason, "use the qrels of this corpus version")
    return qrels[is_in_input].reset_index(drop=True)
