"""Corpus → arguments → split → distant labels: the tables that networks are trained and validated on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

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
from submission.progress import progress
from submission.text.ids import Reads
from submission.text.normalise import normalise
from training.data.distant import hard_negatives, unrelated
from training.data.forms import FORMS
from training.data.protocol import TRAIN, UNRELATED, VALIDATION
from training.data.seeds import Stream, generator
from training.data.split import split
from training.data.statistics import write_statistics
from training.data.tables import unrelated_file

log = logging.getLogger(__name__)

ROWS = 2_000  # a group of a Parquet file: what is in memory at a time

SCHEMA = pa.schema(
    {
        "docno": pa.string(),
        "conclusion": pa.string(),
        "normalised_conclusion": pa.string(),
        "premise": pa.string(),
        "unrelated_docnos": pa.list_(pa.string()),
    }
)


@dataclass(frozen=True)
class TableSettings:
    """The flags of `prepare pairs`: the seed, the size of a random part of the arguments (0: all), other unrelated premises."""

    seed: int = 0
    sample: int = 0
    unrelated: Literal["dirichlet"] | None = None  # written too; a recipe says which it trains on


def prepare_again(
    source: Path, work: Path, made: Mapping[str, Any], unrelated: Literal["dirichlet"] | None = None
) -> dict[str, str]:
    """Prepare the tables of a stored checkpoint again, from the corpus in `source`.

    Args:
        source: the input directory.
        work: the working directory.
        made: the seed and the sample size of the stored checkpoint's tables.
        unrelated: as in TableSettings.

    Returns:
        The SHA-256 of each corpus file by its name.

    Raises:
        As `prepare pairs` does.
    """
    prepare(source, work, TableSettings(made["seed"], made["sample"], unrelated))
    return input_hashes(corpus_files(source))


def prepare(input_directory: Path, directory: Path, settings: TableSettings, overwrite: bool = False) -> None:
    """Write the tables and the statistics into a working directory.

    Tables are `{train,validation}.{words,pieces}.parquet`: docno, conclusion, normalised conclusion, premise (in that form),
    docnos of unrelated premises. With other unrelated premises for training there is also `<their name>/unrelated.parquet`:
    docno, docno of an unrelated premise. Files that are finished are not made again.

    Raises:
        InputError: no corpus, a damaged one, or one that cannot be split.
        OutputError: the directory cannot be written or holds the tables of something else.
    """
    files = corpus_files(input_directory)
    inputs = input_hashes(files)
    decided_by = {"input": inputs, "code": code_fingerprint(__name__), "seed": settings.seed, "sample": settings.sample}
    work = Kept(directory, decided_by, overwrite)

    documents, faults = read_documents(files)
    refuse(faults)
    arguments = long_enough(documents)
    refuse_empty(arguments, len(documents))
    if settings.sample:
        rng = generator(settings.seed, Stream.SAMPLE)
        arguments = arguments.sort_values("docno").iloc[np.sort(rng.permutation(len(arguments))[: settings.sample])]
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
            work.make([f"{name}.{form}.parquet"], partial(_write, part, rows, form, f"{name} {form}"))
    write_statistics(work, train, validation)
    if settings.unrelated:
        kept = Kept(unrelated_file(directory, settings.unrelated).parent, decided_by, overwrite=True)
        write = partial(_write_hard_negatives, train, splits[0][2][:, 0], settings.seed, kept)
        kept.make([unrelated_file(directory, settings.unrelated).name], write)


def _write(arguments: pd.DataFrame, rows: np.ndarray, form: Reads, what: str, file: Path) -> None:
    """Write one table, a few rows at a time: a whole one of texts would not fit."""
    docnos = arguments["docno"].to_numpy()
    premises = arguments["premise"].to_numpy()
    blocks = np.split(np.arange(len(arguments)), range(ROWS, len(arguments), ROWS))
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for block in progress(blocks, what, "arguments", [len(block) for block in blocks]):
            part, texts = arguments.iloc[block], [FORMS[form](premise) for premise in premises[block]]
            columns = [part["docno"], part["conclusion"], part["normalised_conclusion"], texts]
            columns.append([docnos[row].tolist() for row in rows[block]])
            writer.write_table(pa.table([pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA))


def _write_hard_negatives(train: pd.DataFrame, least_similar: np.ndarray, seed: int, kept: Kept, file: Path) -> None:
    docnos = train["docno"].to_numpy()
    rows = hard_negatives(train, least_similar, seed, kept)
    pd.DataFrame({"docno": docnos, "unrelated_docno": docnos[rows]}).to_parquet(file, index=False)
