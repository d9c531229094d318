"""Check which topics and documents of a run are judged."""

import logging
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from aragorn.errors import (
    MAX_NAMES_LISTED,
    InputError,
    abbreviate,
    abbreviate_list,
    pluralise,
)
from aragorn.io import Order
from aragorn.io.collection import select_collection, validate_collection
from aragorn.io.dataset import Dataset
from aragorn.io.files import ID_RULE, is_invalid_id, quote_id
from aragorn.io.formats import describe_text
from aragorn.io.runs import read_run, suggest_normalisation
from aragorn.io.touche import sort_topics
from aragorn.io.trec import read_trec_lines
from aragorn_training.evaluation.evaluate import TOUCHE_DEPTH, get_evaluated_topics

log = logging.getLogger(__name__)

# of the documents in the top five; below, a warning asks whether run and qrels belong together
MIN_JUDGED_SHARE = 0.2


@dataclass(frozen=True)
class Overlap:
    """Topics common to a run and qrels, and numbers of (judged) documents in its top five."""

    run: str  # name
    qrels: str  # name
    common_topics: list[str]  # run topics with a relevant document
    # other topics with a relevant document; means are over these and the common topics
    missing_topics: list[str]
    unjudged_topics: list[str]  # run topics without judgments
    # judged topics without a relevant document; excluded from all means
    topics_without_relevant: list[str]
    n_top: int  # number of documents in the top five of the common topics
    n_judged: int  # number of judged documents among these

    def format_summary(self) -> str:
        """Format numbers of topics, judged share of the top five, and unjudged topics."""
        judged_share = f"{100 * self.n_judged / self.n_top:.0f} % of the top five judged"
        n = len(self.common_topics)
        topics = f"{n} of {n + len(self.missing_topics)} topics"
        text = f"{self.run} × {self.qrels}: {topics}, {judged_share}"
        if qids := self.unjudged_topics:
            text += f"; unjudged topics of the run ({len(qids)}): {abbreviate_list(qids)}"
        return text


def format_overlaps(overlaps: Sequence[Overlap]) -> list[str]:
    """Format the excluded topics of each qrels, if any, and a summary of each overlap."""
    excluded = {overlap.qrels: overlap.topics_without_relevant for overlap in overlaps}
    lines = [
        f"{qrels}: topics without a relevant document, excluded ({len(qids)}): "
        f"{abbreviate_list(qids)}"
        for qrels, qids in excluded.items()
        if qids
    ]
    return lines + [overlap.format_summary() for overlap in overlaps]


def compute_overlap(
    run: pd.DataFrame, qrels: pd.DataFrame, names: tuple[str, str], files: tuple[object, object]
) -> Overlap:
    """Compute the overlap of a run `qid docno`, in rank order, and qrels `qid docno rel`, with
    their names and files; log a warning if judged topics are missing or few documents are judged.
    Raises InputError if no topic of the run has a relevant document, or no document of these topics
    is judged for its topic."""
    topics = list(dict.fromkeys(run["qid"]))
    evaluated = set(get_evaluated_topics(qrels))
    judged = set(qrels["qid"])
    common = find_common_topics(topics, qrels, *files)
    pairs = run.loc[run["qid"].isin(common), ["qid", "docno"]]
    judged_pairs = pairs.merge(qrels[["qid", "docno"]])
    if judged_pairs.empty:
        raise _build_no_judged_document_error(pairs, qrels, files)
    top_rows = pairs.groupby("qid").head(TOUCHE_DEPTH)
    n_judged = len(top_rows.merge(judged_pairs))
    other_qids = evaluated - {*common}
    missing_qids = [qid for qid in dict.fromkeys(qrels["qid"]) if qid in other_qids]
    unjudged = [qid for qid in topics if qid not in judged]
    if missing_qids:
        counts = f"{len(common)} of the {len(evaluated)} judged topics of {names[1]}"
        missing = abbreviate_list(missing_qids, MAX_NAMES_LISTED)
        message = "%s covers %s; missing topics (%s) count as 0 in means other than nDCG@5-touche"
        log.warning(message, names[0], counts, missing)
    judged_qids = set(judged_pairs["qid"])
    unmatched = [qid for qid in common if qid not in judged_qids]
    if unmatched or n_judged < MIN_JUDGED_SHARE * len(top_rows):
        log.warning(
            "%s × %s: %d of %d documents in the top five judged, topics without a judged "
            "document, by id: %s; if that is unexpected, check that topics and corpus are the same",
            *names,
            n_judged,
            len(top_rows),
            abbreviate_list(unmatched, MAX_NAMES_LISTED) or "none",
        )
    without_relevant = sorted(judged - evaluated)
    sizes = (len(top_rows), n_judged)
    return Overlap(*names, common, missing_qids, unjudged, without_relevant, *sizes)


def _build_no_judged_document_error(
    pairs: pd.DataFrame, qrels: pd.DataFrame, files: tuple[object, object]
) -> InputError:
    """Build the error of a run and qrels without a common pair, with an example of each."""
    pair, judged_pair = (
        " for topic ".join(map(abbreviate, table[["docno", "qid"]].iloc[0]))
        for table in (pairs, qrels)
    )
    examples = f"{files[0]}: {pair}; {files[1]}: {judged_pair}"
    cause = f"no document is judged for its topic ({examples})"
    part = "topics" if pairs["docno"].isin(qrels["docno"]).any() else "corpus"
    return InputError(f"{files[0]} and {files[1]}: {cause}; use qrels of the same {part}")


def check_overlap(dataset: Dataset, qrels: pd.DataFrame, qrels_name: str) -> None:
    """Log how many judged topics the input has; raise InputError if there are none."""
    evaluated = get_evaluated_topics(qrels)
    common = find_common_topics(dataset.topics["qid"].tolist(), qrels, dataset.name, qrels_name)
    absent = [qid for qid in evaluated if qid not in common]
    suffix = f"; missing from the input: {abbreviate_list(absent)}" if absent else ""
    level = logging.WARNING if suffix else logging.INFO
    counts = f"{len(common)} of {len(evaluated)} judged topics"
    log.log(level, "%s × %s: %s%s", dataset.name, qrels_name, counts, suffix)


def find_common_topics(
    topics: list[str], qrels: pd.DataFrame, run_name: object, qrels_name: object
) -> list[str]:
    """Return the topics that have a relevant document; raise InputError if there are none."""
    evaluated = set(get_evaluated_topics(qrels))
    judged = set(qrels["qid"])
    if not judged & set(topics):
        raise_no_common_topic(topics, sorted(judged), run_name, qrels_name)
    common = [qid for qid in topics if qid in evaluated]
    if not common:
        qids = abbreviate_list([qid for qid in topics if qid in judged])
        raise InputError(
            f"{run_name} and {qrels_name}: the common topics ({qids}) have no relevant document; "
            "use other qrels"
        )
    return common


def raise_no_common_topic(
    first: Iterable[str], second: Iterable[str], first_name: object, second_name: object
) -> None:
    """Raise InputError with examples of topics, and a hint if normalised ids would match."""
    first = list(first)
    second = list(second)
    examples = f"{first_name}: {abbreviate_list(first)}; {second_name}: {abbreviate_list(second)}"
    raise InputError(
        f"{first_name} and {second_name}: no common topic ({examples}); use files of the same year"
        f"{suggest_normalisation(first, second)}"
    )


def read_docnos(file: Path) -> set[str]:
    """Read docnos, one per line; raise InputError for other lines and an empty file."""
    docnos = set[str]()
    for line in read_trec_lines(file):
        if line.is_blank_or_comment:
            continue
        location = f"line {line.line_number}"
        if len(line.fields) > 1:
            fix = f"expected one docno per line{describe_text(line.text.encode())}"
            raise InputError(file, location, f"{len(line.fields)} fields", fix)
        if is_invalid_id(line.fields[0]):
            problem = f"invalid docno {quote_id(line.fields[0])}"
            raise InputError(file, location, problem, ID_RULE)
        docnos.update(line.fields)
    if not docnos:
        expected = "expected one per line, as `check --mismatched-ids` writes them"
        raise InputError(file, "", "no docno", expected)
    return docnos


def count_judged_documents(qrels: pd.DataFrame, docnos: Set[str]) -> pd.DataFrame:
    """Count the judged documents of each topic in qrels without repeated judgments, and those of an
    input with these docnos: rows `qid judged in_input`, sorted by `sort_topics`."""
    groups = qrels["docno"].isin(docnos).groupby(qrels["qid"])
    return sort_topics(groups.agg(judged="size", in_input="sum").reset_index())


def find_complete_topics(counts: pd.DataFrame) -> list[str]:
    """Return the topics of `count_judged_documents` whose judged documents are all there."""
    return counts.loc[counts["judged"] == counts["in_input"], "qid"].tolist()


def read_collection(*paths: Path) -> tuple[set[str], set[str]]:
    """Return the docnos of an input, and of those documents that systems retrieve from it."""
    return list_docnos(Dataset(*paths, has_topics=False))


def list_docnos(dataset: Dataset) -> tuple[set[str], set[str]]:
    """Return the docnos of an input, see `read_collection`."""
    collection = select_collection(dataset.documents, dataset.min_premise_words)
    validate_collection(collection, len(dataset.documents), dataset.min_premise_words)
    return set(dataset.documents["docno"]), set(collection["docno"])


def read_restricted_run(file: Path, order: Order, docnos: Set[str] | None) -> pd.DataFrame:
    """Read a run, without documents outside a collection (None: any), see `restrict_run`."""
    run = read_run(file, order)
    return run if docnos is None else restrict_run(run, docnos, file)


def restrict_run(run: pd.DataFrame, docnos: Set[str], file: Path) -> pd.DataFrame:
    """Return a run without the documents outside a collection, in the same order, ranked from 1.

    Logs the number of dropped documents, if any, and the topics that have none left. Raises
    InputError if no document of the run is in the collection, which must not be empty.
    """
    is_inside = run["docno"].isin(docnos)
    if is_inside.all():
        return run
    n_documents = pluralise(len(run), "document")
    if not is_inside.any():
        examples = f"run: {abbreviate(run['docno'].iloc[0])}; collection: {abbreviate(min(docnos))}"
        reason = f"none of its {n_documents} is in the collection ({examples})"
        raise InputError(file, "", reason, "pass the input that it ranks, or a run of this input")
    restricted_run = run[is_inside].reset_index(drop=True)
    restricted_run["rank"] = restricted_run.groupby("qid").cumcount() + 1
    qids = set(restricted_run["qid"])
    empty_topics = [qid for qid in dict.fromkeys(run["qid"]) if qid not in qids]
    names = abbreviate_list(empty_topics, MAX_NAMES_LISTED) or "none"
    counts = f"{(~is_inside).sum():,} of {n_documents}"
    message = "%s: dropped %s outside the collection; topics left without documents: %s"
    log.info(message, file.name, counts, names)
    return restricted_run


def exclude_documents(table: pd.DataFrame, docnos: Set[str], name: str) -> pd.DataFrame:
    """Return a run or qrels without some documents; raise InputError if no row is left."""
    is_excluded = table["docno"].isin(docnos)
    log.info("%s: %d of %d rows excluded", name, is_excluded.sum(), len(table))
    if is_excluded.all():
        raise InputError(f"{name}: no row left; exclude fewer documents")
    return table[~is_excluded].reset_index(drop=True)
