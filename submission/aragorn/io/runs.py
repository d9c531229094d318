"""Read TREC runs, `qid Q0 docno rank score tag`, and sort and validate input runs."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from aragorn.errors import MAX_NAMES_LISTED, InputError, abbreviate, abbreviate_list
from aragorn.io import Order
from aragorn.io.files import ID_RULE, Inputs, is_invalid_id, quote_id
from aragorn.io.trec import (
    TrecLine,
    describe_field_count,
    has_rank_and_score,
    parse_float,
    parse_integer,
    read_trec_lines,
    recognise_format,
)
from aragorn.rankings import rank_by_score_stable
from aragorn.storage.atomic_files import get_printable_name

if TYPE_CHECKING:
    import pandas as pd

VERSION = 1  # of the order of an input run

log = logging.getLogger(__name__)

RUN_FILES = ("run.txt", "run.txt.gz")  # TIRA's names of a run in a directory
FORMAT = "`qid Q0 docno rank score tag`"
# categories of errors
FIELD_COUNT = "wrong number of fields"
RANK = "non-integer rank"
SCORE = "non-finite score"
ID = "invalid id"
DUPLICATE = "duplicate document"
SKIPPED = "comment or blank line"  # an error for TIRA only
NORMALISATIONS: dict[str, Callable[[str], str]] = {  # normalisations of ids, by description
    "without leading zeros": lambda qid: qid.lstrip("0") or "0",
    "without the part after the first `.`": lambda qid: qid.partition(".")[0],
    "without the prefix before the number": lambda qid: re.sub(r"^[^0-9]+(?=[0-9])", "", qid),
    "in lower case": str.lower,
}


class RunRow(msgspec.Struct, gc=False):
    """Line of a run; a score that is no finite number is NaN."""

    line: TrecLine
    qid: str
    docno: str
    rank: int
    score: float


class RunError(InputError):
    """Error of a line of a run."""

    def __init__(
        self, file: Path, line: int, category: str, problem: str, fix: str, value: str = ""
    ):
        super().__init__(file, f"line {line}", problem, fix)
        self.line = line
        self.category = category
        self.message = f"{problem}; {fix}"
        self.value = value  # of the invalid field


OnError = Callable[[RunError], None]


def find_run(path: Path) -> Path:
    """Return the run file at a path; in a directory, run.txt or run.txt.gz."""
    reason = ""
    files = []
    try:
        path.stat()
        files = Inputs([path]).find(RUN_FILES[0]) if path.is_dir() else [path]
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:  # invalid name or unreadable directory
        reason = f" ({abbreviate(str(error))})"
    if len(files) > 1:
        raise InputError(path, "", f"contains {' and '.join(RUN_FILES)}", "delete one")
    if files:
        return files[0]
    expected = f"expected a run file, or a directory with {' or '.join(RUN_FILES)}"
    raise InputError(abbreviate(str(path), 300), "", f"no run found{reason}", expected)


def list_other_runs(path: Path) -> list[str]:
    """Return the names of the .txt files in a directory except that of its run; [] for a file."""
    run = find_run(path)
    names = [get_printable_name(file) for file in Inputs([path]).find("*.txt")]
    return [name for name in names if name != run.name] if run != path else []


def read_run_rows(file: Path, on_error: OnError | None = None) -> Iterator[RunRow]:
    """Yield the rows of a run file, without comments and blank lines.

    `on_error` receives all errors of lines, also that a line is skipped; lines with six fields and
    a valid rank are rows nevertheless. If it is None, the first error is raised.
    """
    handle = on_error or _raise
    first_lines: dict[tuple[str, str], int] = {}
    for line in read_trec_lines(file):
        line_number, text, fields = line
        if line.is_blank_or_comment:
            if on_error:
                fix = "delete it before submitting"
                on_error(RunError(file, line_number, SKIPPED, f"{abbreviate(text)!r}", fix))
            continue
        if len(fields) != 6:
            problem, fix = describe_field_count(fields, FORMAT, has_rank_and_score)
            hint = recognise_format(line)
            if len(fields) == 4 and parse_float(fields[3]) is not None:
                hint = "; these are judgments, not a run"
            elif len(fields) < 6 and not hint:
                hint = "; add Q0 after the qid, rank and score after the docno, and a tag"
            handle(RunError(file, line_number, FIELD_COUNT, problem, f"{fix}{hint}"))
            continue
        qid, _, docno, rank_text, score_text, _ = fields
        rank = parse_integer(rank_text)
        if rank is None:
            problem = f"invalid rank {abbreviate(rank_text)!r}"
            fix = f"expected an integer of at most 9 digits in field 4 of {FORMAT}"
            hint = recognise_format(line)
            handle(RunError(file, line_number, RANK, problem, f"{fix}{hint}", rank_text))
            continue
        score = parse_float(score_text)
        first_line = first_lines.setdefault((qid, docno), line_number)
        if first_line != line_number:
            document = f"document {abbreviate(docno)} in topic {abbreviate(qid)}"
            problem = f"duplicate {document} (first in line {first_line})"
            handle(RunError(file, line_number, DUPLICATE, problem, "remove one"))
        elif invalid := next(filter(is_invalid_id, (qid, docno)), None):
            name = "qid" if invalid == qid else "docno"
            problem = f"invalid {name} {quote_id(invalid)}"
            handle(RunError(file, line_number, ID, problem, ID_RULE, invalid))
        elif score is None:
            problem = f"invalid score {abbreviate(score_text)!r}"
            fix = f"expected a finite number in field 5 of {FORMAT}"
            handle(RunError(file, line_number, SCORE, problem, fix, score_text))
        yield RunRow(line, qid, docno, rank, nan if score is None else score)


def _raise(error: InputError) -> None:
    raise error


def read_run(path: Path, order: Order = "auto") -> pd.DataFrame:
    """Read a run file, or that of a directory, as `qid docno rank score tag`, sorted."""
    file = find_run(path)
    return sort_run(file, read_run_rows(file), order)


def sort_run(file: Path, rows: Iterable[RunRow], order: Order = "auto") -> pd.DataFrame:
    """Return rows of a file as `qid docno rank score tag`, sorted; raise InputError if empty."""
    import pandas as pd

    columns = ["qid", "docno", "rank", "score", "tag", "line"]
    values = [
        (row.qid, row.docno, row.rank, row.score, row.line.fields[5], row.line.line_number)
        for row in rows
    ]
    if not values:
        raise InputError(file, "", "empty run", f"expected lines {FORMAT}")
    return sort_ranking(pd.DataFrame(values, columns=columns), order, file)


def sort_ranking(ranking: pd.DataFrame, order: Order, source: object) -> pd.DataFrame:
    """Sort the documents of each topic of an input run by rank or score, and renumber the ranks.

    Args:
        ranking: Frame `qid docno rank score line` in file order, in which remaining ties stay.
            Ranks or scores that the file lacks are NaN, and not used.
        order: Column to sort by; "auto" applies `io.AUTO_ORDER`.
        source: File of the ranking, for messages.

    Returns:
        All columns except line; topics in order of first occurrence, ranks from 1.
    """
    import pandas as pd

    has_ranks = not ranking["rank"].isna().any()
    has_scores = not ranking["score"].isna().any()
    docno_positions = pd.factorize(ranking["docno"], sort=True)[0]
    sort_keys = {"topic": pd.factorize(ranking["qid"])[0]}
    if has_ranks and (order != "score" or not has_scores):
        sort_keys["rank"] = ranking["rank"].to_numpy(float)
    if has_scores:
        sort_keys["score"] = -ranking["score"].to_numpy(float)
    if has_ranks and has_scores:
        sort_keys["docno"] = -docno_positions
    positions = np.lexsort([np.arange(len(ranking)), *reversed(sort_keys.values())])
    ordered = ranking.iloc[positions]
    if has_ranks and has_scores and order == "auto":
        _raise_if_contradictory(ordered, source)
        is_ascending = np.diff(docno_positions[positions], prepend=0) > 0
        _warn_of_ties(ordered, is_ascending, source)
    ranks = ordered.groupby("qid", sort=False).cumcount().to_numpy() + 1
    return ordered.assign(rank=ranks).drop(columns="line").reset_index(drop=True)


def _raise_if_contradictory(ranking: pd.DataFrame, source: object) -> None:
    increases = _find_score_increases(ranking)
    if not increases.any():
        return
    position = int(np.flatnonzero(increases)[0])
    previous = ranking.iloc[position - 1]
    current = ranking.iloc[position]
    topics = f"{ranking['qid'][increases].nunique()} of {ranking['qid'].nunique()} topics"
    reason = (
        f"ranks and scores disagree in {topics}; "
        f"first in topic {abbreviate(current['qid'])}: {abbreviate(current['docno'])} has "
        f"rank {current['rank']:.0f} and score {current['score']:g}, "
        f"{abbreviate(previous['docno'])} (line {previous['line']}) "
        f"rank {previous['rank']:.0f} and score {previous['score']:g}"
    )
    fix = "set --order rank or --order score"
    raise InputError(source, f"line {current['line']}", reason, fix)


def _find_score_increases(ranking: pd.DataFrame) -> pd.Series:
    """Return whether each row's score exceeds that of the topic's previous row."""
    return ranking["qid"].eq(ranking["qid"].shift()) & ranking["score"].gt(ranking["score"].shift())


def _warn_of_ties(ranking: pd.DataFrame, is_ascending: np.ndarray, source: object) -> None:
    """Warn of ties; `is_ascending` (N,) is whether a docno is above the previous row's."""
    with np.errstate(over="ignore"):  # as trec_eval, for which 1e40 and 2e40 are infinite
        single = ranking.assign(score=ranking["score"].to_numpy(np.float32))
    is_equal = ranking.duplicated(["qid", "score"])
    is_single_equal = single.duplicated(["qid", "score"]) & ~is_equal
    for column, is_affected, rule in (
        (
            "ranks",
            ranking.duplicated(["qid", "rank"]),
            "by score, then docno descending (as trec_eval)",
        ),
        (
            "scores",
            is_equal & is_ascending,
            "by rank (trec_eval: by docno descending, as --order score)",
        ),
        (
            "32-bit scores",
            is_single_equal & is_ascending,
            "by 64-bit scores (trec_eval: by docno descending)",
        ),
    ):
        if n_affected := ranking["qid"][is_affected].nunique():
            message = "%s: equal %s in %d of %d topics; sorted %s"
            log.warning(message, source, column, n_affected, ranking["qid"].nunique(), rule)


def validate_input_run(
    ranking: pd.DataFrame, topics: pd.DataFrame, unknown_docnos: Collection[str], source: object
) -> pd.DataFrame:
    """Validate a sorted ranking `qid docno rank score`; return it in topic order.

    Documents too short for the collection are kept, as an earlier stage selected them. Topics
    without documents cause a warning. `unknown_docnos` are those that are not in the input.
    """
    check_pairs(ranking, topics, unknown_docnos, source)
    missing_qids = topics["qid"][~topics["qid"].isin(set(ranking["qid"]))]
    if len(missing_qids):
        message = "%s: no documents for %d of %d topics (%s); their rankings are empty"
        examples = abbreviate_list(missing_qids.tolist(), MAX_NAMES_LISTED)
        log.warning(message, source, len(missing_qids), len(topics), examples)
    return rank_by_score_stable(_fill_scores(ranking, source), topics)


def check_pairs(
    pairs: pd.DataFrame, topics: pd.DataFrame, unknown_docnos: Collection[str], source: object
) -> None:
    """Raise InputError for an unknown topic or document of pairs `qid docno`, or a duplicate."""
    qids = set(topics["qid"])
    for is_unknown, column, noun in (
        (~pairs["qid"].isin(qids), "qid", "topic"),
        (pairs["docno"].isin(unknown_docnos), "docno", "document"),
    ):
        unknown_ids = pairs[column][is_unknown]
        if len(unknown_ids):
            n_unknown = unknown_ids.nunique()
            n_total = pairs[column].nunique()
            is_disjoint = column == "qid" and n_unknown == n_total
            hint = suggest_normalisation(sorted(set(unknown_ids)), qids) if is_disjoint else ""
            missing = f"{format_missing(n_unknown, n_total, noun)} in the input"
            reason = f"{missing} (first: {abbreviate(unknown_ids.iloc[0])})"
            fix = f"use a ranking made from this version of the input{hint and '.'}{hint}"
            raise InputError(source, "", reason, fix)
    duplicates = pairs[pairs.duplicated(["qid", "docno"])]
    if len(duplicates):
        qid, docno = duplicates[["qid", "docno"]].iloc[0]
        reason = f"duplicate document {abbreviate(docno)} in topic {abbreviate(qid)}"
        raise InputError(source, "", reason, "remove one")


def _fill_scores(ranking: pd.DataFrame, source: object) -> pd.DataFrame:
    """Replace all scores with n, n - 1, …, 1 per topic if any is missing or increases."""
    if not (_find_score_increases(ranking).any() or ranking["score"].isna().any()):
        return ranking
    message = "%s: scores missing or not in rank order; replaced with n, n - 1, …, 1 per topic"
    log.warning(message, source)
    n_documents = ranking.groupby("qid")["rank"].transform("size").to_numpy(float)
    return ranking.assign(score=n_documents - ranking["rank"] + 1)


def suggest_normalisation(ids: Collection[str], other_ids: Collection[str]) -> str:
    """Return a hint that names the normalisation under which two disjoint id sets overlap, or "".

    Example: " 01 without leading zeros equals 1; rename the topics of one file."
    """
    for description, normalise in NORMALISATIONS.items():
        ids_by_normal_form = {normalise(other_id): other_id for other_id in other_ids}
        for identifier in ids:
            normal_form = normalise(identifier)
            if normal_form in ids_by_normal_form:
                other_id = ids_by_normal_form[normal_form]
                example = abbreviate(identifier if normal_form != identifier else other_id)
                equation = f"{example} {description} equals {abbreviate(normal_form)}"
                return f" {equation}; rename the topics of one file."
    return ""


def format_missing(count: int, total: int, noun: str) -> str:
    """Format a positive count of missing ids, e.g. "3 of 15 topics are not"."""
    if total == 1:
        return f"the only {noun} is not"
    if count == total:
        return f"none of the {total} {noun}s is"
    return f"{count} of {total} {noun}s {'is' if count == 1 else 'are'} not"
