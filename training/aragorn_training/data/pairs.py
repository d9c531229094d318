"""Prepare the tables of training and validation pairs from the args.me corpus, and statistics of it
(Entezari 2020, figures 3.1, 3.2, 4.1)."""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from aragorn.io.collection import select_collection, validate_collection
from aragorn.io.touche import find_corpus_files, read_documents
from aragorn.options import option
from aragorn.progress import track
from aragorn.storage.archives import hash_input_files
from aragorn.storage.recorded_files import RecordedFiles
from aragorn.text.normalisation import normalise, remove_urls, tokenise_premise
from aragorn.text.tokenisers import InputUnit
from aragorn.versions import describe_versions
from aragorn_training.data.corpora import describe_corpus
from aragorn_training.data.distant_supervision import mine_hard_negatives, sample_negatives
from aragorn_training.data.split import (
    NEGATIVES_PER_ARGUMENT,
    TRAIN,
    VALIDATION,
    RandomStream,
    create_generator,
    split_by_conclusion,
)
from aragorn_training.data.work_directory import get_hard_negatives_file, iter_rows, open_work_dir
from aragorn_training.evaluation.plots import NEUTRAL, create_figure, render_png
from aragorn_training.options import CorpusOptions, PrepareOptions, SeedOptions

VERSION = 1  # of the tables made from the same corpus
COMPUTES_WITH = (
    "aragorn.io.collection",
    "aragorn.io.touche",
    "aragorn.text.normalisation",
    "aragorn_training.data.distant_supervision",
    "numpy",
    "pandas",
)

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
        "version": describe_versions(__name__),
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


N_TOP_CONCLUSIONS = 20


def write_statistics(tables: RecordedFiles, train: pd.DataFrame, validation: pd.DataFrame) -> None:
    """Add statistics.json and two histograms of the arguments to the tables."""
    conclusions = pd.concat([train["normalised_conclusion"], validation["normalised_conclusion"]])
    unique_conclusions = conclusions.unique()
    conclusion_lengths = np.array([len(text.split()) for text in unique_conclusions])
    premise_lengths, vocabulary_size = _measure_premises(tables.directory)
    top_counts = conclusions.value_counts().head(N_TOP_CONCLUSIONS)
    statistics = {
        "arguments": len(conclusions),
        "train arguments": len(train),
        "validation arguments": len(validation),
        "validation queries": validation["normalised_conclusion"].nunique(),
        "unique normalised conclusions": len(unique_conclusions),
        "vocabulary of conclusions": len({*" ".join(unique_conclusions).split()}),
        "vocabulary of premises": vocabulary_size,
        "mean words per conclusion": round(float(conclusion_lengths.mean()), 2),
        "mean words per premise": round(float(premise_lengths.mean()), 1),
        "median words per premise": float(np.median(premise_lengths)),
        "share of premises under 200 words": round(float((premise_lengths < 200).mean()), 3),
        "most frequent conclusions": dict(
            sorted(top_counts.items(), key=lambda item: (-item[1], item[0]))
        ),
    }
    content = json.dumps(statistics, indent=1, ensure_ascii=False) + "\n"
    tables.build(["statistics.json"], lambda file: file.write_text(content, encoding="utf-8"))
    for name, lengths, label, max_length in (
        ("conclusion", conclusion_lengths, "words per unique normalised conclusion", 20),
        ("premise", premise_lengths, "words per premise", 1750),
    ):
        tables.build([f"{name}-lengths.png"], partial(_plot_histogram, lengths, label, max_length))


def _measure_premises(directory: Path) -> tuple[np.ndarray, int]:
    """Return the word counts (arguments,) of the premises and the number of distinct words."""
    lengths: list[int] = []
    terms: set[str] = set()
    for split in ("train", "validation"):
        for row in iter_rows(directory / f"{split}.pieces.parquet", ["premise"], directory):
            lengths.append(len(row["premise"].split()))
        for row in iter_rows(directory / f"{split}.words.parquet", ["premise"], directory):
            terms.update(row["premise"].split())
    return np.array(lengths), len(terms)


def _plot_histogram(lengths: np.ndarray, label: str, max_length: int, file: Path) -> None:
    """Write a histogram of text lengths (words) as PNG; its last bar counts all longer texts."""
    fig = create_figure(7, 4)
    axes = fig.add_subplot(
        xlabel=label, ylabel="count", title=f"n = {len(lengths)}, mean {lengths.mean():.1f}"
    )
    # one bar per length if `max_length` is small
    edges = np.linspace(0.5, max_length + 0.5, min(max_length, 70) + 1)
    axes.hist(np.minimum(lengths, max_length), bins=edges.tolist(), color=NEUTRAL, rwidth=0.95)
    if overflow := int((lengths > max_length).sum()):
        text = f"last bar includes {overflow} texts of over {max_length} words"
        axes.text(0.98, 0.95, text, transform=axes.transAxes, ha="right", va="top")
    file.write_bytes(render_png(fig))
