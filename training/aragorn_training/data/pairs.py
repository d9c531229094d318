"""Prepare the tables of training and validation pairs from the args.me corpus."""

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from aragorn.io import collection, touche
from aragorn.io.collection import select_collection, validate_collection
from aragorn.io.touche import find_corpus_files, read_documents
from aragorn.options import option
from aragorn.progress import track
from aragorn.storage.archives import hash_input_files
from aragorn.storage.recorded_files import RecordedFiles
from aragorn.text import normalisation
from aragorn.text.normalisation import normalise, remove_urls, tokenise_premise
from aragorn.text.tokenisers import InputUnit
from aragorn.versions import describe_versions
from aragorn_training.data.corpora import describe_corpus
from aragorn_training.data.corpus_statistics import write_statistics
from aragorn_training.data.distant_supervision import mine_hard_negatives, sample_negatives
from aragorn_training.data.split import (
    NEGATIVES_PER_ARGUMENT,
    TRAIN,
    VALIDATION,
    RandomStream,
    create_generator,
    split_by_conclusion,
)
from aragorn_training.data.work_directory import get_hard_negatives_file, open_work_dir
from aragorn_training.options import CorpusOptions, PrepareOptions, SeedOptions

VERSION = 1  # of the tables made from the same corpus

log = logging.getLogger(__name__)

ROW_GROUP_SIZE = 2_000  # arguments per Parquet row group; limits memory

# How tables store premises: normalised words, or text without URLs.
PREMISE_FORMS: dict[InputUnit, Callable[[str], str]] = {
    "words": lambda premise: " ".join(tokenise_premise(premise)),
    "pieces": remove_urls,
}

TABLE_SCHEMA = pa.schema(
    {
        "docno": pa.string(),
        "conclusion": pa.string(),
        "normalised_conclusion": pa.string(),
        "premise": pa.string(),
        "negatives": pa.list_(pa.string()),  # docnos of the negatives
    }
)


@dataclass(frozen=True, kw_only=True)
class Options(SeedOptions, PrepareOptions, CorpusOptions):
    """Options of `prepare pairs`."""

    sample: int = option(0, help="number of arguments to sample; 0: all")
    hard_negatives: Literal["dirichlet"] | None = option(
        None, help="retrieval model whose results are added as hard negatives (default: none)"
    )


def prepare_pairs(options: Options) -> None:
    """Build distantly supervised training and validation pairs.

    The tables are {train,validation}.{words,pieces}.parquet, see TABLE_SCHEMA; hard negatives of a
    retrieval model are <model>/unrelated.parquet. Statistics of the corpus are added.
    """
    files = find_corpus_files(options.input_dir)
    seed = options.seed
    cache_key = {
        "input": hash_input_files(files),
        **describe_corpus(files),
        "version": describe_versions(touche, normalisation, collection, sys.modules[__name__]),
        "seed": seed,
        "sample_size": options.sample,
    }
    with open_work_dir(options.work_dir):
        tables = RecordedFiles(options.work_dir, cache_key, options.overwrite)
        train, validation = split_by_conclusion(_read_arguments(files, options.sample, seed), seed)
        parts = {TRAIN: train, VALIDATION: validation}
        negatives = {
            name: sample_negatives(part, NEGATIVES_PER_ARGUMENT[name], seed)
            for name, part in parts.items()
        }
        for name, part in parts.items():
            for form in PREMISE_FORMS:
                write = partial(_write_table, part, negatives[name], form, f"Writing {name}.{form}")
                tables.build([f"{name}.{form}.parquet"], write)
        write_statistics(tables, train, validation)
        if options.hard_negatives:
            file = get_hard_negatives_file(options.work_dir, options.hard_negatives)
            write = partial(_write_hard_negatives, train, negatives[TRAIN][:, 0], seed)
            RecordedFiles(file.parent, cache_key, overwrite=True).build([file.name], write)


def _read_arguments(files: list[Path], sample_size: int, seed: int) -> pd.DataFrame:
    """Read the arguments of sufficient length, or a sample, with `normalised_conclusion`."""
    documents = read_documents(files)
    arguments = select_collection(documents)
    validate_collection(arguments, len(documents))
    if sample_size:
        rng = create_generator(seed, RandomStream.SAMPLE)
        rows = np.sort(rng.permutation(len(arguments))[:sample_size])
        arguments = arguments.sort_values("docno").iloc[rows]
    conclusions = arguments["conclusion"]
    normalised = {text: normalise(text) for text in conclusions.unique()}
    return arguments.assign(normalised_conclusion=conclusions.map(normalised))


def _write_table(
    arguments: pd.DataFrame, negatives: np.ndarray, form: InputUnit, label: str, file: Path
) -> None:
    """Write a split's table with premises in a form, in row groups, which limits memory."""
    docnos = arguments["docno"].to_numpy()
    premises = arguments["premise"].to_numpy()
    blocks = np.split(
        np.arange(len(arguments)), range(ROW_GROUP_SIZE, len(arguments), ROW_GROUP_SIZE)
    )
    with pq.ParquetWriter(file, TABLE_SCHEMA, compression="zstd") as writer:
        for block in track(blocks, label, "arguments", [len(block) for block in blocks]):
            part = arguments.iloc[block]
            texts = [PREMISE_FORMS[form](premise) for premise in premises[block]]
            columns = part[["docno", "conclusion", "normalised_conclusion"]].to_dict("list")
            negative_docnos = [docnos[row].tolist() for row in negatives[block]]
            columns |= {"premise": texts, "negatives": negative_docnos}
            writer.write_table(pa.table(columns, TABLE_SCHEMA))


def _write_hard_negatives(train: pd.DataFrame, fallback: np.ndarray, seed: int, file: Path) -> None:
    docnos = train["docno"].to_numpy()
    rows = mine_hard_negatives(train, fallback, seed)
    pd.DataFrame({"docno": docnos, "unrelated_docno": docnos[rows]}).to_parquet(file, index=False)
