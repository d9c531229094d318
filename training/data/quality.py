"""Prepare published argument-quality data sets as tables of one format."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import pandas as pd

from submission.errors import InputError
from submission.progress import track
from submission.storage.artifact_store import ArtifactStore, read_manifest
from submission.storage.code_fingerprint import code_fingerprint
from submission.storage.hashing import hash_input_files
from training.data.datasets import ibm_argq, ukp_conv_arg_rank, webis_argquality
from training.data.work_directory import not_found, reading

log = logging.getLogger(__name__)

COLUMNS = ["data", "debate", "topic", "docno", "premise", "score"]  # topic includes the stance; a higher score is better


class DatasetReader(Protocol):
    """A published data set."""

    FOLDER: str

    def files(self, directory: Path) -> list[Path]:
        """List its files."""


class ListReader(DatasetReader, Protocol):
    """A data set with one list per file."""

    def read_list(self, file: Path) -> pd.DataFrame:
        """Read one list."""


class DatasetCredit(NamedTuple):
    """Name, publisher and licence of a data set."""

    name: str
    publisher: str
    licence: str  # the stricter of two stated licences


LIST_DATASETS: dict[str, ListReader] = {"ukp": ukp_conv_arg_rank, "ibm": ibm_argq}
DATASETS: dict[str, DatasetReader] = {**LIST_DATASETS, "webis": webis_argquality}
CREDITS = {  # training data sets
    "ukp": DatasetCredit("UKPConvArgRank", "UKP Lab", "CC BY-SA"),
    "ibm": DatasetCredit("IBM-ArgQ 5.3k", "IBM Research", "terms of IBM Research"),
}


def find_datasets(directory: Path) -> list[str]:
    """Return the data sets found in a directory. Raises InputError if there are none."""
    datasets = [name for name, data in DATASETS.items() if (directory / data.FOLDER).is_dir()]
    missing = [data.FOLDER for name, data in DATASETS.items() if name not in datasets]
    if not datasets:
        raise InputError(f"{directory}: no data set found; expected at least one of the folders {', '.join(missing)}")
    if missing:
        log.info("%s: not found: %s", directory, ", ".join(missing))
    return datasets


def prepare_quality(directory: Path, datasets: Sequence[str], work: Path, overwrite: bool = False) -> None:
    """Write one table per data set into `work`/quality, with a record of its source files.

    Columns: COLUMNS; Webis has more (`webis.read`). Skips files that are already complete.

    Args:
        directory: contains one folder per data set.
        datasets: data sets.
        work: working directory.
        overwrite: replace tables of other data.

    Raises:
        InputError: a data set is missing or has a malformed row.
        OutputError: the directory is not writable or holds tables of other data.
    """
    inputs = {name: hash_input_files(DATASETS[name].files(directory)) for name in datasets}
    for name, hashes in inputs.items():
        file, cache_key = table_path(work, name), {"input": hashes, "code": code_fingerprint(__name__)}
        store = ArtifactStore(file.parent, cache_key, overwrite, record_name(name), [file.name])
        store.build_files([file.name], partial(_write, name, directory))


def _write(name: str, directory: Path, file: Path) -> None:
    table = (_read_lists(name, directory) if name in LIST_DATASETS else webis_argquality.read_judgments(directory)).assign(
        data=name
    )
    table[[*COLUMNS, *(column for column in table if column not in COLUMNS)]].to_parquet(file, index=False)
    lists, debates = table["topic"].nunique(), table["debate"].nunique()
    log.info("%s: %d texts, %d lists, %d debates", name, len(table), lists, debates)


def _read_lists(name: str, directory: Path) -> pd.DataFrame:
    dataset = LIST_DATASETS[name]
    return pd.concat([dataset.read_list(file) for file in track(dataset.files(directory), name, "lists")], ignore_index=True)


def table_path(work: Path, name: str) -> Path:
    """Return the path of a data set's table."""
    return work / "quality" / f"{name}.parquet"


def record_name(name: str) -> str:
    """Return the name of its record."""
    return f"{name}.json"


def load_table(work: Path, name: str) -> pd.DataFrame:
    """Load a data set's arguments.

    The arguments of a topic are one list to rank; a debate has one topic per side.

    Args:
        work: working directory.
        name: key of the data set.

    Returns:
        One row per argument, see COLUMNS.

    Raises:
        InputError: the table is missing or damaged.
    """
    file = table_path(work, name)
    with reading(file, "lists", f"-i DIR --work {work}"):
        return pd.read_parquet(file, columns=COLUMNS)


def load_webis_judgments(work: Path) -> pd.DataFrame:
    """Load Webis-ArgQuality-20 with all columns, see `webis.read`. Raises InputError if it is missing or damaged."""
    table = load_table(work, "webis")
    all_columns = pd.read_parquet(table_path(work, "webis"))
    return table.join(all_columns.drop(columns=COLUMNS))


def source_hashes(work: Path, name: str) -> dict[str, str]:
    """Return the hashes of a table's source files. Raises InputError if there is no record of them."""
    file = table_path(work, name).with_name(record_name(name))
    try:
        return dict(read_manifest(file).inputs["input"])
    except LookupError:
        raise not_found(file, f"lists -i DIR --work {work}") from None
