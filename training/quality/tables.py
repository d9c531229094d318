"""Arguments with their quality: one form of table for all data sets."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa

from submission.disk.kept import read_record
from submission.errors import InputError

COLUMNS = ["data", "debate", "topic", "docno", "premise", "score"]  # topic: with its stance; score: the larger the better


class Source(NamedTuple):
    """Name, publisher and licence of a data set."""

    name: str
    publisher: str
    licence: str  # the stricter one where it says two


SOURCES = {  # of those that networks are trained on
    "ukp": Source("UKPConvArgRank", "UKP Lab", "CC BY-SA"),
    "ibm": Source("IBM-ArgQ 5.3k", "IBM Research", "terms of IBM Research"),
}


def place(work: Path, name: str) -> Path:
    """The file of a data set's table."""
    return work / "quality" / f"{name}.parquet"


def record(name: str) -> str:
    """The name of the record beside it."""
    return f"{name}.json"


def quality_table(work: Path, name: str) -> pd.DataFrame:
    """A data set's arguments. The arguments of a topic are a list to rank; a debate has the topics of all its sides.

    Args:
        work: what `prepare lists` wrote.
        name: of the data set.

    Returns:
        A row an argument, see COLUMNS.

    Raises:
        InputError: there is no such table, or it is damaged.
    """
    file = place(work, name)
    try:
        return pd.read_parquet(file, columns=COLUMNS)
    except FileNotFoundError:
        raise _missing(work, file) from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file}: damaged ({error}); remove it and run `python -m training prepare lists` again") from None


def published(work: Path, name: str) -> dict[str, str]:
    """The files that a data set's table was made from, with their hashes. Raises InputError: there is no record of them."""
    file = place(work, name).with_name(record(name))
    try:
        return dict(read_record(file).decided_by["input"])
    except LookupError:
        raise _missing(work, file) from None


def _missing(work: Path, file: Path) -> InputError:
    return InputError(f"{file}: missing; `python -m training prepare lists -i DIR --work {work}` makes it")
