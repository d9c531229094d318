"""Corpus → arguments → split → distant labels: the tables that networks are trained and validated on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from submission import text
from submission.corpus import corpus_files, input_hashes, long_enough, read_corpus
from submission.progress import progress
from submission.text import drop_urls, normalise, premise_words
from training.distant import unrelated
from training.protocol import TRAIN, UNRELATED, VALIDATION
from training.seeds import Stream, generator
from training.split import split
from training.statistics import write_statistics
from training.work import Work

log = logging.getLogger(__name__)

ROWS = 2_000  # a group of a Parquet file: what is in memory at a time

FORMS: dict[str, Callable[[str], str]] = {  # as rankers name them
    "words": lambda premise: " ".join(premise_words(premise)),
    "bert": drop_urls,
}
SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "conclusion": pa.string(),
        "normalised_conclusion": pa.string(),
        "premise": pa.string(),
        "unrelated_ids": pa.list_(pa.string()),
        "unrelated_premises": pa.list_(pa.string()),
    }
)


@dataclass(frozen=True)
class Settings:
    """The flags of `prepare`: the seed, and the size of a random part of the arguments (0: all)."""

    seed: int = 0
    sample: int = 0


def prepare(input_directory: Path, directory: Path, settings: Settings, overwrite: bool = False) -> None:
    """Write the tables, the validation's qrels and candidates, and the statistics into a working directory.

    Tables are `{train,validation}.{words,bert}.parquet`: id, conclusion, normalised conclusion, premise (in that form),
    unrelated ids and premises. Files that are finished are not made again.

    Raises:
        InputError: no corpus, a damaged one, or one that cannot be split.
        OutputError: the directory cannot be written or holds the tables of something else.
    """
    files = corpus_files(input_directory)
    inputs = input_hashes(files)
    code = input_hashes([Path(str(text.__file__))])["text.py"]  # tables of another text processing are other tables
    work = Work(directory, {"input": inputs, "text": code, "seed": settings.seed, "sample": settings.sample}, overwrite)

    arguments = long_enough(read_corpus(files)).rename(columns={"docno": "id"})
    if settings.sample:
        rng = generator(settings.seed, Stream.SAMPLE)
        arguments = arguments.sort_values("id").iloc[np.sort(rng.permutation(len(arguments))[: settings.sample])]
    normalised = {conclusion: normalise(conclusion) for conclusion in arguments["conclusion"].unique()}
    arguments["normalised_conclusion"] = arguments["conclusion"].map(normalised)
    train, validation = split(arguments, settings.seed)
    del arguments
    splits = [
        (name, part, unrelated(part, UNRELATED[name], settings.seed))
        for name, part in ((TRAIN, train), (VALIDATION, validation))
    ]
    for name, part, rows in splits:
        for form in FORMS:
            work.make(f"{name}.{form}.parquet", partial(_write, part, rows, form, f"{name} {form}"))
        if name == VALIDATION:
            work.make("validation.queries.tsv", partial(_write_queries, part))
            work.make("validation.qrels", partial(_write_qrels, part))
            work.make("validation.candidates", partial(_write_candidates, part, rows))
    write_statistics(work, train, validation)


def query_ids(validation: pd.DataFrame) -> list[str]:
    """The topic id of each validation argument: v1, v2, … by normalised conclusion."""
    return [f"v{number + 1}" for number in pd.factorize(validation["normalised_conclusion"])[0]]


def _write(arguments: pd.DataFrame, rows: np.ndarray, form: str, what: str, file: Path) -> None:
    """Write one table, a few rows at a time: a whole table of texts and their unrelated texts would not fit."""
    ids = arguments["id"].to_numpy()
    premises = arguments["premise"].to_numpy()
    texts = np.empty(len(arguments), dtype=object)
    blocks = np.split(np.arange(len(texts)), range(ROWS, len(texts), ROWS))
    for block in progress(blocks, f"{what} texts", "premises", [len(block) for block in blocks]):
        texts[block] = [FORMS[form](premise) for premise in premises[block]]
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for block in progress(blocks, f"{what} table", "rows", [len(block) for block in blocks]):
            part, others = arguments.iloc[block], rows[block]
            columns = [part["id"], part["conclusion"], part["normalised_conclusion"], texts[block]]
            columns += [[ids[row].tolist() for row in others], [texts[row].tolist() for row in others]]
            writer.write_table(pa.table([pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA))


def _write_queries(validation: pd.DataFrame, file: Path) -> None:
    """The conclusion of each query as first written, `qid conclusion` with a tab between."""
    queries = dict(zip(reversed(query_ids(validation)), reversed(validation["conclusion"].tolist()), strict=True))
    lines = (f"{qid}\t{' '.join(queries[qid].split())}\n" for qid in dict.fromkeys(query_ids(validation)))
    file.write_text("".join(lines), encoding="utf-8")


def _write_qrels(validation: pd.DataFrame, file: Path) -> None:
    lines = (f"{qid} 0 {docno} 1\n" for qid, docno in zip(query_ids(validation), validation["id"], strict=True))
    file.write_text("".join(lines), encoding="utf-8")


def _write_candidates(validation: pd.DataFrame, rows: np.ndarray, file: Path) -> None:
    """The 5 related and 100 unrelated documents of each query, one `qid docno` a line, sorted within a query."""
    ids, lines = validation["id"].to_numpy(), []
    for qid, group in validation.groupby(np.array(query_ids(validation)), sort=False):
        docnos = sorted({*group["id"], *ids[rows[group.index].ravel()]})
        lines += [f"{qid} {docno}\n" for docno in docnos]
    file.write_text("".join(lines), encoding="utf-8")
