"""Published data sets of argument quality → tables of one form, as the losses and the protocol read them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import pandas as pd

from submission.disk.code import code_fingerprint
from submission.disk.fingerprint import input_hashes
from submission.disk.kept import Kept
from submission.errors import InputError
from submission.progress import progress
from training.quality import ibm, ukp, webis
from training.quality.tables import COLUMNS, place, quality_table, record

log = logging.getLogger(__name__)


class Published(Protocol):
    """A data set as it is published."""

    FOLDER: str

    def files(self, directory: Path) -> list[Path]:
        """Its files, in a directory of data sets."""


class Lists(Published, Protocol):
    """A data set with one list per file."""

    def read(self, file: Path) -> pd.DataFrame:
        """Read one data set."""


LISTS: dict[str, Lists] = {"ukp": ukp, "ibm": ibm}
DATA: dict[str, Published] = {**LISTS, "webis": webis}


def there(directory: Path) -> list[str]:
    """The data sets that a directory has. Raises InputError: none."""
    found = [name for name, data in DATA.items() if (directory / data.FOLDER).is_dir()]
    others = [data.FOLDER for name, data in DATA.items() if name not in found]
    if not found:
        raise InputError(f"{directory}: no data set; expected one or more of {', '.join(others)}, each as it is published")
    if others:
        log.info("%s: without %s", directory, ", ".join(others))
    return found


def prepare_quality(directory: Path, names: Sequence[str], work: Path, overwrite: bool = False) -> None:
    """Write tables into `work`/quality, a file a data set, with a record beside it of what it was made from.

    Their columns are COLUMNS; webis has more (`training.quality.webis`). Files that are finished are not made again.

    Args:
        directory: with a folder for each data set, as it is published.
        names: of the data sets.
        work: a working directory.
        overwrite: replace the tables of other data.

    Raises:
        InputError: a data set is missing, or has a bad row.
        OutputError: the directory cannot be written, or holds the tables of other data.
    """
    inputs = {name: input_hashes(DATA[name].files(directory)) for name in names}
    for name, hashes in inputs.items():
        file, decided_by = place(work, name), {"input": hashes, "code": code_fingerprint(__name__)}
        kept = Kept(file.parent, decided_by, overwrite, record(name), [file.name])
        kept.make([file.name], partial(_write, name, directory))


def _write(name: str, directory: Path, file: Path) -> None:
    table = (_joined(name, directory) if name in LISTS else webis.read(directory)).assign(data=name)
    table[[*COLUMNS, *(column for column in table if column not in COLUMNS)]].to_parquet(file, index=False)
    lists, debates = table["topic"].nunique(), table["debate"].nunique()
    log.info("%s: %d texts, %d lists, %d debates", name, len(table), lists, debates)


def _joined(name: str, directory: Path) -> pd.DataFrame:
    reader = LISTS[name]
    return pd.concat([reader.read(file) for file in progress(reader.files(directory), name, "lists")], ignore_index=True)


def judgments(work: Path) -> pd.DataFrame:
    """Webis-ArgQuality-20 with all its columns, see `webis.read`. Raises InputError: there is no table, or it is damaged."""
    table = quality_table(work, "webis")
    more = pd.read_parquet(place(work, "webis"))
    return table.join(more.drop(columns=COLUMNS))
