"""Count the arguments, unconfirmed texts and judged documents of a collection, and find the topics
that miss no judged document."""

import logging
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from aragorn.errors import MAX_NAMES_LISTED, abbreviate_list
from aragorn.io.collection import find_mismatched_ids, select_collection
from aragorn.io.qrels import read_qrels
from aragorn.io.touche import Argument, find_corpus_files, read_arguments, read_documents
from aragorn.options import option
from aragorn_training.evaluation.overlap import (
    count_judged_documents,
    find_complete_topics,
    read_docnos,
)
from aragorn_training.options import (
    InputOptions,
    NamedQrelsOptions,
    Result,
    StudyOptions,
    index_files_by_name,
)

log = logging.getLogger(__name__)

FILE = "collection.csv"
FIRST_COLUMNS = ("corpus", "arguments", "searchable")
DIGITS = 0
# last two rows
ALL_FILES = "all"
OUTSIDE = "outside the input"
TOPICS = "topics"  # name of the further table


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, NamedQrelsOptions, InputOptions):
    """Options of the study."""

    unconfirmed_ids: Path | None = option(
        None,
        metavar="FILE",
        help="file of docnos, one per line, whose texts may differ from args.me (default: none)",
    )


def run(options: Options) -> Result:
    """Count the documents of an args.me corpus and those that are judged.

    Returns:
        One row per corpus file (`corpus`), a row ALL_FILES, and a row OUTSIDE for judged documents
        that the input lacks. Columns: `arguments`; `searchable`, with a premise that is long enough
        to be retrieved; `mismatched`, with an id of args.me 2020-04-01 that is not the hash of the
        text; `unconfirmed`; and for each qrels NAME `judged_NAME`, the documents with a judgment,
        and `judged_unconfirmed_NAME`, those of them that are unconfirmed. Further table: one row
        per judged topic, `qrels qid judged in_input`, with numbers of judged documents.
    """
    qrels_by_name = {
        name: read_qrels(file) for name, file in index_files_by_name(options.qrels, "qrels").items()
    }
    unconfirmed = read_docnos(options.unconfirmed_ids) if options.unconfirmed_ids else set[str]()
    files = find_corpus_files(*options.inputs)
    documents = read_documents(files)
    # A second reading, because read_documents does not return the files of its documents.
    corpora = {
        argument.id: file.name.split(".")[0]
        for file in reversed(files)
        for argument in read_arguments(file, Argument)
    }
    docnos = documents["docno"]
    flags = {
        "arguments": docnos.notna(),
        "searchable": docnos.isin(select_collection(documents)["docno"]),
        "mismatched": docnos.isin(find_mismatched_ids(documents)[0]),
        "unconfirmed": docnos.isin(unconfirmed),
    }
    for name, qrels in qrels_by_name.items():
        flags[f"judged_{name}"] = docnos.isin(qrels["docno"])
        flags[f"judged_unconfirmed_{name}"] = flags[f"judged_{name}"] & flags["unconfirmed"]
    counts = pd.DataFrame(flags).groupby(docnos.map(corpora).rename("corpus"), sort=False).sum()
    counts.loc[ALL_FILES] = counts.sum()
    counts.loc[OUTSIDE] = 0
    for name, qrels in qrels_by_name.items():
        counts.loc[OUTSIDE, f"judged_{name}"] = len({*qrels["docno"]}.difference(docnos))
    return Result(counts.reset_index(), tables={TOPICS: count_by_topic(qrels_by_name, set(docnos))})


def count_by_topic(qrels_by_name: Mapping[str, pd.DataFrame], docnos: Set[str]) -> pd.DataFrame:
    """Count the judged documents of each topic, and log the topics that miss none, see `run`."""
    tables = []
    for name, qrels in qrels_by_name.items():
        counts = count_judged_documents(qrels, docnos)
        topics = find_complete_topics(counts)
        n_judged = qrels.loc[qrels["qid"].isin(topics), "docno"].nunique()
        names = abbreviate_list(topics, MAX_NAMES_LISTED) or "none"
        text = f"{len(topics)} of {len(counts)} topics ({n_judged} documents): {names}"
        log.info("%s: the input has all judged documents of %s", name, text)
        tables.append(counts.assign(qrels=name))
    return pd.concat(tables)[["qrels", "qid", "judged", "in_input"]]
