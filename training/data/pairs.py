"""Prepare the tables of training and validation pairs from the args.me corpus."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from submission.data.args_me import corpus_files, read_documents
from submission.data.collection import long_enough, refuse_empty
from submission.data.dataset import refuse
from submission.progress import progress
from submission.storage.artifact_store import Kept
from submission.storage.code_fingerprint import code_fingerprint
from submission.storage.hashing import input_hashes
from submission.text.normalisation import drop_urls, normalise, premise_words
from submission.text.token_ids import Reads
from training.data.corpus_statistics import write_statistics
from training.data.distant_supervision import hard_negatives, unrelated
from training.data.seeds import Stream, generator
from training.data.split import TRAIN, UNRELATED, VALIDATION, split
from training.data.work_directory import unrelated_file

log = logging.getLogger(__name__)

ROWS = 2_000  # arguments per Parquet row group; bounds memory

# How tables store premises: normalised words, or text without URLs.
FORMS: dict[Reads, Callable[[str], str]] = {
    "words": lambda premise: " ".join(premise_words(premise)),
    "pieces": drop_urls,
}

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
    """Options of `prepare pairs`.

    Attributes:
        seed: seed of sample, split and negatives.
        sample: size of a random sample of arguments (0: all).
        unrelated: retrieval model for additional hard negatives.
    """

    seed: int = 0
    sample: int = 0
    unrelated: Literal["dirichlet"] | None = None


def prepare_again(
    source: Path, work: Path, made: Mapping[str, Any], unrelated: Literal["dirichlet"] | None = None
) -> dict[str, str]:
    """Prepare the tables of a stored checkpoint again.

    Args:
        source: directory with the corpus.
        work: working directory.
        made: seed and sample size of the stored checkpoint.
        unrelated: see TableSettings.

    Returns:
        SHA-256 by corpus file name.

    Raises:
        InputError, OutputError: see `prepare`.
    """
    prepare(source, work, TableSettings(made["seed"], made["sample"], unrelated))
    return input_hashes(corpus_files(source))


def prepare(input_directory: Path, directory: Path, settings: TableSettings, overwrite: bool = False) -> None:
    """Write tables and corpus statistics into a working directory.

    Writes {train,validation}.{words,pieces}.parquet with docno, conclusion, normalised conclusion, premise and negative
    docnos; with hard negatives also <model>/unrelated.parquet. Skips files that are already complete.

    Raises:
        InputError: no corpus, a damaged corpus, or one that cannot be split.
        OutputError: the directory is not writable or holds tables of other data.
    """
    files = corpus_files(input_directory)
    cache_key = {
        "input": input_hashes(files),
        "code": code_fingerprint(__name__),
        "seed": settings.seed,
        "sample": settings.sample,
    }
    store = Kept(directory, cache_key, overwrite)
    train, validation = split(_read_arguments(files, settings), settings.seed)
    splits = [
        (name, part, unrelated(part, UNRELATED[name], settings.seed))
        for name, part in ((TRAIN, train), (VALIDATION, validation))
    ]
    for name, part, negatives in splits:
        for form in FORMS:
            store.make([f"{name}.{form}.parquet"], partial(_write, part, negatives, form, f"Writing {name}.{form}"))
    write_statistics(store, train, validation)
    if settings.unrelated:
        file = unrelated_file(directory, settings.unrelated)
        hard_negative_store = Kept(file.parent, cache_key, overwrite=True)
        write = partial(_write_hard_negatives, train, splits[0][2][:, 0], settings.seed, hard_negative_store)
        hard_negative_store.make([file.name], write)


def _read_arguments(files: list[Path], settings: TableSettings) -> pd.DataFrame:
    """Read the arguments of sufficient length, or a sample of them, with their normalised conclusions."""
    documents, faults = read_documents(files)
    refuse(faults)
    arguments = long_enough(documents)
    refuse_empty(arguments, len(documents))
    if settings.sample:
        rng = generator(settings.seed, Stream.SAMPLE)
        arguments = arguments.sort_values("docno").iloc[np.sort(rng.permutation(len(arguments))[: settings.sample])]
    normalised_conclusions = {conclusion: normalise(conclusion) for conclusion in arguments["conclusion"].unique()}
    arguments["normalised_conclusion"] = arguments["conclusion"].map(normalised_conclusions)
    return arguments


def _write(arguments: pd.DataFrame, negatives: np.ndarray, form: Reads, label: str, file: Path) -> None:
    """Write one table in row groups to bound memory."""
    docnos = arguments["docno"].to_numpy()
    premises = arguments["premise"].to_numpy()
    blocks = np.split(np.arange(len(arguments)), range(ROWS, len(arguments), ROWS))
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        for block in progress(blocks, label, "arguments", [len(block) for block in blocks]):
            part, texts = arguments.iloc[block], [FORMS[form](premise) for premise in premises[block]]
            columns = [part["docno"], part["conclusion"], part["normalised_conclusion"], texts]
            columns.append([docnos[row].tolist() for row in negatives[block]])
            writer.write_table(pa.table([pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA))


def _write_hard_negatives(train: pd.DataFrame, least_similar: np.ndarray, seed: int, store: Kept, file: Path) -> None:
    docnos = train["docno"].to_numpy()
    rows = hard_negatives(train, least_similar, seed, store)
    pd.DataFrame({"docno": docnos, "unrelated_docno": docnos[rows]}).to_parquet(file, index=False)
