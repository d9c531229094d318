"""Prepare, load and split tables of documents whose tokens are tagged with argument components."""

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from aragorn.storage.archives import hash_input_files
from aragorn.storage.recorded_files import RecordedFiles
from aragorn.text import surface_tokens
from aragorn.versions import describe_versions
from aragorn_training.data.datasets.argument_components import (
    SOURCES,
    ComponentDataset,
    TaggedDocument,
    read_documents,
)
from aragorn_training.data.split import hold_out
from aragorn_training.data.work_directory import convert_table_errors, open_folder
from aragorn_training.options import PrepareOptions, input_option

VERSION = 1  # of the tables made from the same data sets

log = logging.getLogger(__name__)

SCHEMA = pa.schema({"words": pa.list_(pa.string()), "tags": pa.list_(pa.string())})
TEST_FRACTION = 0.2  # held-out fraction of the documents


class Split(NamedTuple):
    """Disjoint training and test documents."""

    train: list[TaggedDocument]
    test: list[TaggedDocument]


@dataclass(frozen=True, kw_only=True)
class Options(PrepareOptions):
    """Options of `prepare tags`."""

    input_dir: Path = input_option(
        "directory with es.txt and wd.txt (persuasive essays, web discourse), "
        "as published by TARGER's authors"
    )


def prepare_tags(options: Options) -> None:
    """Build token-level argument annotations for TARGER."""
    directory = options.input_dir
    inputs = hash_input_files([directory / dataset.file for dataset in SOURCES.values()])
    versions = describe_versions(surface_tokens, sys.modules[__name__])
    cache_key = {"input": inputs, "version": versions}
    folder = options.work_dir / "tagging"
    with open_folder(folder, options.work_dir):
        tables = RecordedFiles(folder, cache_key, options.overwrite)
        for name, dataset in SOURCES.items():
            file = get_table_path(options.work_dir, name)
            tables.build([file.name], partial(_write_table, directory, name, dataset))


def get_table_path(work_dir: Path, name: str) -> Path:
    """Return the path of a data set's table in a working directory."""
    return work_dir / "tagging" / f"{name}.parquet"


def _write_table(directory: Path, name: str, dataset: ComponentDataset, file: Path) -> None:
    documents = read_documents(directory, dataset)
    columns = {
        "words": [document.tokens for document in documents],
        "tags": [document.tags for document in documents],
    }
    pq.write_table(pa.table(columns, SCHEMA), file)
    n_tokens = sum(len(document.tokens) for document in documents)
    n_components = sum(tag.startswith("B-") for document in documents for tag in document.tags)
    counts = f"{len(documents)} documents, {n_tokens} tokens, {n_components} components"
    log.info("%s: %s", name, counts)


def load_documents(work_dir: Path, name: str) -> list[TaggedDocument]:
    """Load the tagged documents of a prepared data set by name, a key of SOURCES."""
    file = get_table_path(work_dir, name)
    with convert_table_errors(file, work_dir, "tags"):
        table = pq.read_table(file, schema=SCHEMA)
    return [TaggedDocument(tuple(row["words"]), tuple(row["tags"])) for row in table.to_pylist()]


def split_documents(documents: Sequence[TaggedDocument], seed: int) -> Split:
    """Split documents at random; the share of test documents, at least one, is TEST_FRACTION."""
    test, train = hold_out(len(documents), round(TEST_FRACTION * len(documents)), seed)
    return Split([documents[index] for index in train], [documents[index] for index in test])
