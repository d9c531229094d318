"""Tables that are measured a part at a time: its new rows take the place of earlier ones, those of other parts stay."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from io import StringIO
from pathlib import Path

import pandas as pd

from submission.errors import InputError


def other_rows(file: Path, column: str, names: Collection[str]) -> pd.DataFrame:
    """The rows that a table has of other names in a column, as they are written. Raises InputError: it is something else."""
    if not file.exists():
        return pd.DataFrame()
    try:
        old = pd.read_csv(file, dtype=str, keep_default_na=False)
        return old[~old[column].isin(names)]
    except (OSError, ValueError, KeyError):
        raise InputError(f"{file}: expected a table of this verb; choose another file") from None


def joined(table: pd.DataFrame, others: pd.DataFrame, column: str, order: Sequence[str], digits: int) -> str:
    """The rows of a table, with so many digits, and others, as CSV; by their names in a column, in the order of these."""
    written = StringIO(table.to_csv(index=False, float_format=f"%.{digits}f"))
    places = {name: number for number, name in enumerate(order)}
    both = pd.concat([pd.read_csv(written, dtype=str, keep_default_na=False), others])
    ordered = both.sort_values(column, key=lambda names: names.map(places), kind="stable")
    return str(ordered.to_csv(index=False, lineterminator="\n"))
