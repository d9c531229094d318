"""Prepare published argument-quality data sets as tables of one format."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import pandas as pd

from submission.errors import InputError
from submission.progress import progress
from submission.storage.artifact_store import Kept, read_record
from submission.storage.code_fingerprint import code_fingerprint
from submission.storage.hashing import input_hashes
from training.data.datasets import ibm_argq, ukp_conv_arg_rank, webis_argquality
from training.data.work_directory import not_found, reading

log = logging.getLogger(__name__)

COLUMNS = ["data", "debate", "topic", "docno", "premise", "score"]  # topic includes the stance; a higher score is better


class Published(Protocol):
    """A published data set."""

    FOLDER: str

    def files(self, directory: Path) -> list[Path]:
        """List its files."""


class Lists(Published, Protocol):
    """A data set with one list per file."""

    def read(self, file: Path) -> pd.DataFrame:
        """Read one list."""


class Source(NamedTuple):
    """Name, publisher and licence of a data set."""

    name: str
    publisher: str
    licence: str  # the stricter of two stated licences


LISTS: dict[str, Lists] = {"ukp": ukp_conv_arg_rank, "ibm": ibm_argq}
DATA: dict[str, Published] = {**LISTS, "webis": webis_argquality}
SOURCES = {  # training data sets
    "ukp": Source("UKPConvArgRank", "UKP Lab", "CC BY-SA"),
    "ibm": Source("IBM-ArgQ 5.3k", "IBM Research", "terms of IBM Research"),
}


def there(directory: Path) -> list[str]:
    """Return the data sets found in a directory. Raises InputError if there are none."""
    datasets = [name for name, data in DATA.items() if (directory / data.FOLDER).is_dir()]
    missing = [data.FOLDER for name, data in DATA.items() if name not in datasets]
    if not datasets:
        raise InputError(f"{directory}: no data set found; expected at least one of the folders {', '.join(missing)}")
    if missing:
        log.info("%s: not found: %s", directory, ", ".join(missing))
    return datasets


def prepare_quality(directory: Path, names: Sequence[str], work: Path, overwrite: bool = False) -> None:
    """Write one table per data set into `work`/quality, with a record of its source files.

    Columns: COLUMNS; Webis has more (`webis.read`). Skips files that are already complete.

    Args:
        directory: contains one folder per data set.
        names: data sets.
        work: working directory.
        overwrite: replace tables of other data.

    Raises:
        InputError: a data set is missing or has a malformed row.
        OutputError: the directory is not writable or holds tables of other data.
    """
    inputs = {name: input_hashes(DATA[name].files(directory)) for name in names}
    for name, hashes in inputs.items():
        file, cache_key = place(work, name), {"input": hashes, "code": code_fingerprint(__name__)}
        store = Kept(file.parent, cache_key, overwrite, record(name), [file.name])
        store.make([file.name], partial(_write, name, directory))


def _write(name: str, directory: Path, file: Path) -> None:
    table = (_joined(name, directory) if name in LISTS else webis_argquality.read(directory)).assign(data=name)
    table[[*COLUMNS, *(column for column in table if column not in COLUMNS)]].to_parquet(file, index=False)
    lists, debates = table["topic"].nunique(), table["debate"].nunique()
    log.info("%s: %d texts, %d lists, %d debates", name, len(table), lists, debates)


def _joined(name: str, directory: Path) -> pd.DataFrame:
    dataset = LISTS[name]
    return pd.concat([dataset.read(file) for file in progress(dataset.files(directory), name, "lists")], ignore_index=True)


def place(work: Path, name: str) -> Path:
    """Return the path of a data set's table."""
    return work / "quality" / f"{name}.parquet"


def record(name: str) -> str:
    """Return the name of its record."""
    return f"{name}.json"


def quality_table(work: Path, name: str) -> pd.DataFrame:
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
    file = place(work, name)
    with reading(file, "lists", f"-i DIR --work {work}"):
        return pd.read_parquet(file, columns=COLUMNS)


def judgments(work: Path) -> pd.DataFrame:
    """Load Webis-ArgQuality-20 with all columns, see `webis.read`. Raises InputError if it is missing or damaged."""
    table = quality_table(work, "webis")
    all_columns = pd.read_parquet(place(work, "webis"))
    return table.join(all_columns.drop(columns=COLUMNS))


def published(work: Path, name: str) -> dict[str, str]:
    """Return the hashes of a table's source files. Raises InputError if there is no record of them."""
    file = place(work, name).with_name(record(name))
    try:
        return dict(read_record(file).decided_by["input"])
    except LookupError:
        raise not_found(file, f"lists -i DIR --work {work}") from None
