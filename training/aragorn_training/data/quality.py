"""Prepare published argument-quality data sets as tables that share COLUMNS, and load them."""

import logging
from dataclasses import dataclass
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
from aragorn_training.data.work_directory import (
    build_not_found_error,
    convert_table_errors,
    open_folder,
)
from aragorn_training.options import PrepareOptions, input_option

VERSION = 1  # of the tables made from the same data sets
COMPUTES_WITH = ("pandas",)

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
CREDITS = {  # training sets only
    "ukp": DatasetCredit("UKPConvArgRank", "UKP Lab", "CC BY-SA"),
    "ibm": DatasetCredit("IBM-ArgQ 5.3k", "IBM Research", "terms of IBM Research"),
}


@dataclass(frozen=True, kw_only=True)
class Options(PrepareOptions):
    """Options of `prepare quality`."""

    inputs: tuple[Path, ...] = input_option(
        "directory with one or more of ukp-conv-arg-rank/, ibm-argq-5.3k/, "
        "webis-argquality-20/, as published; repeatable"
    )


def prepare_quality(options: Options) -> None:
    """Build tables of the argument-quality data sets (UKP, IBM, Webis).

    One table, with a manifest of its source files, per data set; each is read from the first
    directory that has its folder. The table of Webis-ArgQuality-20 has more columns than COLUMNS,
    see `webis_argquality.read_judgments`.
    """
    directories = {
        name: directory
        for name, folder in FOLDERS.items()
        for directory in reversed(options.inputs)
        if (directory / folder).is_dir()
    }
    names = ", ".join(map(str, options.inputs))
    missing_folders = [folder for name, folder in FOLDERS.items() if name not in directories]
    if not directories:
        folders = f"({' or '.join(missing_folders)})"
        raise InputError(f"{names}: no data set; download one into its folder {folders}")
    if missing_folders:
        message = "%s: skipping data sets whose folders are missing: %s"
        log.info(message, names, ", ".join(missing_folders))
    # all are hashed first, to fail before a table is written
    inputs = {
        name: hash_input_files(LIST_DATASETS.get(name, webis_argquality).list_files(directory))
        for name, directory in directories.items()
    }
    versions = describe_versions(__name__)
    folder = options.work_dir / "quality"
    with open_folder(folder, options.work_dir):
        for name, hashes in inputs.items():
            cache_key = {"input": hashes, "version": versions}
            file = get_table_path(options.work_dir, name)
            manifest = file.with_suffix(".json").name
            tables = RecordedFiles(folder, cache_key, options.overwrite, manifest, [file.name])
            tables.build([file.name], partial(_write_table, name, directories[name]))


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


def load_source_hashes(work_dir: Path, name: str) -> dict[str, str]:
    """Load the SHA-256 of a table's source files, by file name."""
    file = get_table_path(work_dir, name).with_suffix(".json")
    try:
        return dict(read_record(file).inputs["input"])
    except LookupError:
        raise build_not_found_error(file, work_dir, "quality") from None
