"""Count DeepCT's passages without a relevant word (Hollatz 2022, section 3.2)."""

from dataclasses import dataclass

import pandas as pd

from aragorn.io.collection import select_collection
from aragorn.io.touche import find_corpus_files, read_documents
from aragorn.text.index_terms import TermAnalyser
from aragorn_training.data.debates import read_argument_topics
from aragorn_training.data.term_weighting import (
    PUBLISHED_SAMPLES,
    find_matching_words,
    load_labels,
    read_passages_manifest,
)
from aragorn_training.options import CorpusOptions, StudyOptions

FILE = "passages.csv"
FIRST_COLUMNS = ("arguments", "documents", "reference")
DIGITS = 1
# arguments
LONG = "15 words or more"
WITH_TOPIC = "15 words or more, with a topic"
ALL = "all"


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, CorpusOptions):
    """Options of the study."""


def run(options: Options) -> pd.DataFrame:
    """Count the passages prepared from a corpus, and with them the arguments that are too short to
    be prepared.

    Returns:
        One row per selection of arguments, document set and reference: `arguments` (LONG: as
        prepared; WITH_TOPIC: also with a topic; ALL: with each shorter argument as a passage, of
        the document set `all` only), `documents reference passages`; `empty` and `at_least_one`,
        the passages without and with a relevant word; `empty_percent`.

    Raises:
        InputError: If the passages are missing, or were prepared without qrels or runs.
    """
    read_passages_manifest(options.work_dir, "unpooled")
    files = find_corpus_files(options.input_dir)
    documents = read_documents(files)
    topics = read_argument_topics(files)
    stems = TermAnalyser("porter")
    document_sets = load_labels(options.work_dir)
    short = documents[~documents["docno"].isin(select_collection(documents)["docno"])]
    references = {"topic": short["docno"].map(topics), "conclusion": short["conclusion"]}
    short_labels = pd.DataFrame()
    for name, reference in references.items():
        texts = zip(short["premise"], reference, strict=True)
        short_labels[name] = [bool(find_matching_words(*pair, stems)) for pair in texts]
    short_labels["both"] = short_labels.any(axis=1)
    selections = {(LONG, name): table for name, table in document_sets.items()}
    selections |= {
        (WITH_TOPIC, name): table[table["docno"].map(topics) != ""]
        for name, table in document_sets.items()
    }
    selections[ALL, "all"] = pd.concat([document_sets["all"], short_labels])
    rows = [
        (arguments, name, reference, len(table), int(table[reference].sum()))
        for (arguments, name), table in selections.items()
        for _, reference in [key for key in PUBLISHED_SAMPLES if key[0] == name]
    ]
    columns = ["arguments", "documents", "reference", "passages", "at_least_one"]
    counts = pd.DataFrame(rows, columns=columns)
    counts.insert(4, "empty", counts["passages"] - counts["at_least_one"])
    return counts.assign(empty_percent=100 * (1 - counts["at_least_one"] / counts["passages"]))
