"""Prepare published argument-quality data sets as tables that share COLUMNS, and load them."""

import logging
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from aragorn.errors import InputError
from aragorn.progress import track
from aragorn.storage.archives import hash_input_files
from aragorn.storage.recorded_files import RecordedFiles, read_record
from aragorn.versions import describe_versions
from aragorn_training.data.datasets import webis_argquality
from aragorn_training.data.datasets.quality_lists import IBM, UKP
from aragorn_training.data.work_directory import build_not_found_error, convert_table_errors

VERSION = 1  # of the tables made from the same data sets

log = logging.getLogger(__name__)

# topic includes the stance; a higher score is better
COLUMNS = ["data", "debate", "topic", "docno", "premise", "score"]


class DatasetCredit(NamedTuple):
    """Source of a data set, credited in checkpoint cards."""

    name: str
    publisher: str
    licence: str  # the stricter licence if two are stated


LIST_DATASETS = {"ukp": UKP, "ibm": IBM}  # one list per file
FOLDERS = {"ukp": UKP.folder, "ibm": IBM.folder, "webis": webis_argquality.FOLDER}
CREDITS = {  # of the data sets for training
    "ukp": DatasetCredit("UKPConvArgRank", "UKP Lab", "CC BY-SA"),
    "ibm": DatasetCredit("IBM-ArgQ 5.3k", "IBM Research", "terms of IBM Research"),
}


def find_datasets(directory: Path) -> list[str]:
    """Return the keys of FOLDERS that have a folder; raise InputError if there is none."""
    datasets = [name for name, folder in FOLDERS.items() if (directory / folder).is_dir()]
    missing_folders = [folder for name, folder in FOLDERS.items() if name not in datasets]
    if not datasets:
        raise InputError(
            f"{directory}: no data set; download one into its folder "
            f"({' or '.join(missing_folders)})"
        )
    if missing_folders:
        message = "%s: skipping data sets whose folders are missing: %s"
        log.info(message, directory, ", ".join(missing_folders))
    return datasets


def prepare_quality(
    directory: Path, datasets: Sequence[str], work_dir: Path, overwrite: bool = False
) -> None:
    """Write one table per data set into `work_dir`/quality, with a manifest of its source files.

    The table of Webis-ArgQuality-20 has more columns than COLUMNS, see
    `webis_argquality.read_judgments`.
    """
    sources = {name: LIST_DATASETS.get(name, webis_argquality) for name in datasets}
    inputs = {name: hash_input_files(data.list_files(directory)) for name, data in sources.items()}
    for name, hashes in inputs.items():
        file = get_table_path(work_dir, name)
        cache_key = {"input": hashes, "version": describe_versions(sys.modules[__name__])}
        manifest = file.with_suffix(".json").name
        tables = RecordedFiles(file.parent, cache_key, overwrite, manifest, [file.name])
        tables.build([file.name], partial(_write_table, name, directory))


def _write_table(name: str, directory: Path, file: Path) -> None:
    if dataset := LIST_DATASETS.get(name):
        files = track(dataset.list_files(directory), name, "lists")
        table = pd.concat(map(dataset.read_list, files), ignore_index=True)
    else:
        table = webis_argquality.read_judgments(directory)
    table = table.assign(data=name)
    other_columns = [column for column in table if column not in COLUMNS]
    table[[*COLUMNS, *other_columns]].to_parquet(file, index=False)
    n_lists = table["topic"].nunique()
    n_debates = table["debate"].nunique()
    log.info("%s: %d texts, %d lists, %d debates", name, len(table), n_lists, n_debates)


def get_table_path(work_dir: Path, name: str) -> Path:
    """Return the path of a data set's table in a working directory."""
    return work_dir / "quality" / f"{name}.parquet"


def load_table(work_dir: Path, name: str, columns: list[str] | None = COLUMNS) -> pd.DataFrame:
    """Load columns of a data set's table (None: all); a topic is a list, a debate has two."""
    file = get_table_path(work_dir, name)
    with convert_table_errors(file, work_dir, "quality"):
        return pd.read_parquet(file, columns=columns)


def load_webis_judgments(work_dir: Path) -> pd.DataFrame:
    """Load all columns of Webis-ArgQuality-20, see `webis_argquality.read_judgments`."""
    return load_table(work_dir, "webis", columns=None)


def load_source_hashes(work_dir: Path, name: str) -> dict[str, str]:
    """Load the SHA-256 of a table's source files, by file name."""
    file = get_table_path(work_dir, name).with_suffix(".json")
    try:
        return dict(read_record(file).inputs["input"])
    except LookupError:
        raise build_not_found_error(file, work_dir, "quality") from None
