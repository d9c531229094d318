"""Corpus → passages and the words of theirs that matter: the table that DeepCT learns from."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from submission.disk.code import code_fingerprint
from submission.disk.fingerprint import input_hashes
from submission.disk.kept import Kept
from submission.input.args_me import corpus_files, read_documents
from submission.input.collection import long_enough, refuse_empty
from submission.input.directory import refuse
from submission.input.qrels import read_qrels
from submission.input.runs import read_run
from submission.progress import progress
from submission.text.normalise import drop_urls
from submission.text.passages import cut
from training.data.tables import table_rows
from training.deepct.contexts import topics_of
from training.deepct.labels import Labels
from training.deepct.paper import EMPTY
from training.deepct.table import PASSAGES, SCHEMA, place, taken, words

log = logging.getLogger(__name__)

FOUND = 50  # documents of a run and topic that are left out with the judged ones
WORDS = 220  # of a passage, at most: with whole sentences, those of the thesis have 2.1 an argument
ROWS = 2_000  # arguments whose passages are in memory


def prepare_passages(
    input_directory: Path, work: Path, qrels: Sequence[Path] = (), runs: Sequence[Path] = (), overwrite: bool = False
) -> pd.DataFrame:
    """Write the passages of all arguments that are long enough into `work`/passages, see SCHEMA; finished, they stay.

    Args:
        input_directory: with the args.me corpus.
        work: a working directory.
        qrels: TREC qrels; passages of what they judge are marked.
        runs: TREC runs; passages of each topic's first 50 documents are marked.
        overwrite: replace the table of other data.

    Returns:
        For each document set and reference that can be told apart: `documents reference passages empty`, the latter the
        share of passages without a word that matters, and that of the `thesis`, both in percent.

    Raises:
        InputError: no corpus, or something in it, in the qrels or in a run is wrong.
        OutputError: the directory cannot be written, or holds the table of other data.
    """
    files = corpus_files(input_directory)
    decided_by = {
        "input": input_hashes(files),
        "qrels": input_hashes([*qrels]),
        "runs": input_hashes([*runs]),
        "code": code_fingerprint(__name__),
    }
    judged = {docno for file in qrels for docno in read_qrels(file)["docno"]}
    found = {docno for file in runs for docno in read_run(file).query(f"rank <= {FOUND}")["docno"]}
    kept = Kept(place(work), decided_by, overwrite)
    kept.make([PASSAGES], partial(_write, files, judged, found))
    documents = ["all", *(["unjudged"] if qrels else []), *(["unpooled"] if qrels and runs else [])]
    return _statistics(kept.directory / PASSAGES, documents)


def _write(files: Sequence[Path], judged: set[str], found: set[str], file: Path) -> None:
    """A few arguments at a time: all passages would not fit."""
    documents, faults = read_documents(list(files))
    refuse(faults)
    arguments = long_enough(documents).sort_values("docno", ignore_index=True)
    refuse_empty(arguments, len(documents))
    del documents
    topics, labels = topics_of(files), Labels()
    without = sum(not topics[docno] for docno in arguments["docno"])
    if without:
        log.warning("%d of %d arguments have no topic in their context: only their conclusions label", without, len(arguments))
    blocks = np.split(np.arange(len(arguments)), range(ROWS, len(arguments), ROWS))
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for block in progress(blocks, "passages", "arguments", [len(block) for block in blocks]):
            rows = [row for argument in arguments.iloc[block].itertuples() for row in _passages(argument, topics, labels)]
            for row in rows:
                row |= {"judged": row["docno"] in judged, "found": row["docno"] in found}
            writer.write_table(pa.Table.from_pylist(rows, SCHEMA))


def _passages(argument: Any, topics: dict[str, str], labels: Labels) -> Iterator[dict[str, Any]]:
    topic, conclusion = topics[argument.docno], argument.conclusion
    for number, passage in enumerate(cut(drop_urls(argument.premise), WORDS), 1):
        yield {
            "docno": argument.docno,
            "number": number,
            "discussion": (topic or conclusion).lower(),
            "passage": passage,
            "topic": labels.words(passage, topic),
            "conclusion": labels.words(passage, conclusion),
        }


def _statistics(file: Path, documents: Sequence[str]) -> pd.DataFrame:
    number: Counter[str] = Counter()
    empty: Counter[tuple[str, str]] = Counter()
    kinds = [(name, reference) for name, reference in EMPTY if name in documents]
    for row in table_rows(file, ["topic", "conclusion", "judged", "found"]):
        own = [name for name in documents if taken(row, name)]
        number.update(own)
        empty.update(kind for kind in kinds if kind[0] in own and not words(row, kind[1]))
    return pd.DataFrame(
        {
            "documents": name,
            "reference": reference,
            "passages": number[name],
            "empty": 100 * empty[name, reference] / max(1, number[name]),
            "thesis": 100 * EMPTY[name, reference][0] / sum(EMPTY[name, reference]),
        }
        for name, reference in kinds
    )
