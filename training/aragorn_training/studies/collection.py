"""Count the arguments, unconfirmed texts and judged documents of a collection by portal."""

from collections.abc import Mapping, Sequence, Set
from pathlib import Path

import pandas as pd
from aragorn.io.args_me import find_corpus_files, read_arguments
from aragorn.io.args_me_ids import find_mismatched_ids
from aragorn.io.collection import select_collection
from aragorn.io.input_files import raise_first

ALL_FILES, OUTSIDE = "all", "outside the input"  # last two rows


def tabulate_collection(
    inputs: Sequence[Path], unconfirmed: Set[str], qrels_by_name: Mapping[str, pd.DataFrame]
) -> pd.DataFrame:
    """Count the documents of an args.me corpus and those that are judged.

    Args:
        inputs: Directories, archives or files of the corpus.
        unconfirmed: Docnos of texts that may differ from args.me.
        qrels_by_name: Judgments `qid docno rel` by name.

    Returns:
        One row per corpus file (`corpus`), a row ALL_FILES, and a row OUTSIDE for judged documents
        that the input lacks.
        Columns: `arguments`; `searchable`, with a premise that is long enough to be retrieved;
            `mismatched`, with an id of
        args.me 2020-04-01 that is not the hash of the text; `unconfirmed`; and for each qrels NAME
        `judged_NAME`, the documents with a judgment, and `judged_unconfirmed_NAME`, those of them
        that are unconfirmed.
    """
    files = find_corpus_files(*inputs)
    documents, issues = read_arguments(files)
    raise_first(issues)
    # A second reading, because read_arguments does not return the files of its documents.
    corpora = {
        docno: file.name.split(".")[0]
        for file in reversed(files)
        for docno in read_arguments([file])[0]["docno"]
    }
    docnos = documents["docno"]
    flags = {
        "arguments": docnos.notna(), "searchable": docnos.isin(select_collection(documents)["docno"]),
        "mismatched": docnos.isin(find_mismatched_ids(documents)[0]), "unconfirmed": docnos.isin(unconfirmed),
    }  # fmt: skip
    for name, qrels in qrels_by_name.items():
        flags[f"judged_{name}"] = docnos.isin(qrels["docno"])
        flags[f"judged_unconfirmed_{name}"] = flags[f"judged_{name}"] & flags["unconfirmed"]
    counts = pd.DataFrame(flags).groupby(docnos.map(corpora).rename("corpus"), sort=False).sum()
    counts.loc[ALL_FILES], counts.loc[OUTSIDE] = counts.sum(), 0
    for name, qrels in qrels_by_name.items():
        counts.loc[OUTSIDE, f"judged_{name}"] = (
            ~qrels["docno"].drop_duplicates().isin(docnos)
        ).sum()
    return counts.reset_index()
