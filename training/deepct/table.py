"""The prepared passages: where their table is, what is in it, and which of them a recipe takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from submission.disk.kept import RECORD, Record, read_record
from submission.errors import InputError
from training.data.tables import table_rows

PASSAGES = "passages.parquet"
SCHEMA = pa.schema(
    {
        "docno": pa.string(),
        "number": pa.int32(),  # of the passage in its argument, from 1
        "discussion": pa.string(),  # what the argument is about, the same for all of a debate
        "passage": pa.string(),
        "topic": pa.list_(pa.string()),  # the words that matter by it
        "conclusion": pa.list_(pa.string()),
        "judged": pa.bool_(),  # whether its argument is
        "found": pa.bool_(),  # whether a given run has its argument among its first
    }
)


def place(work: Path) -> Path:
    """The directory of the table."""
    return work / "passages"


def prepared(work: Path, documents: str) -> Record:
    """Return the record of the table. Raises InputError: there is none, or it cannot tell these documents from others."""
    record = read_record(place(work) / RECORD)
    if PASSAGES not in record.files:
        raise InputError(f"{place(work)}: no passages; `python -m training prepare passages -i INPUT --work {work}` makes them")
    needed = {"all": (), "unjudged": ("qrels",), "unpooled": ("qrels", "runs")}[documents]
    for name in needed:
        if not record.decided_by[name]:
            raise InputError(f"{place(work)}: prepared without {name}, which {documents!r} takes; prepare them again")
    return record


def rows(work: Path, documents: str, reference: str) -> Iterator[dict[str, Any]]:
    """Yield the passages of some documents, in the order of the table, with their `words` that matter by a reference."""
    for row in table_rows(place(work) / PASSAGES, None):
        if taken(row, documents):
            yield row | {"words": words(row, reference)}


def taken(row: dict[str, Any], documents: str) -> bool:
    """Tell whether a passage belongs to a document set."""
    return documents == "all" or not (row["judged"] or (documents == "unpooled" and row["found"]))


def words(row: dict[str, Any], reference: str) -> set[str]:
    """The words that matter by a reference."""
    return {*row["topic"], *row["conclusion"]} if reference == "both" else {*row[reference]}
