"""The prepared passages: where their table is, what is in it, and which of them a recipe takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from submission.disk.kept import RECORD, Record, read_record
from submission.errors import InputError
from training.data.tables import table_rows
from training.fitting.recipe import Passages

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


def prepared(work: Path, recipe: Passages) -> Record:
    """What the table was made from. Raises InputError: there is none, or it does not say what a recipe asks for."""
    record = read_record(place(work) / RECORD)
    if PASSAGES not in record.files:
        raise InputError(f"{place(work)}: no passages; `python -m training prepare-passages -i INPUT -o {work}` makes them")
    needed = {"all": (), "unjudged": ("qrels",), "unpooled": ("qrels", "runs")}[recipe.documents]
    for name in needed:
        if not record.decided_by[name]:
            raise InputError(f"{place(work)}: prepared without {name}, which {recipe.documents!r} takes; prepare them again")
    return record


def rows(work: Path, recipe: Passages) -> Iterator[dict[str, Any]]:
    """The passages that a recipe takes, in the order of the table, with their `words` that matter."""
    for row in table_rows(place(work) / PASSAGES, None):
        if taken(row, recipe.documents):
            yield row | {"words": words(row, recipe.reference)}


def taken(row: dict[str, Any], documents: str) -> bool:
    """Whether a passage is of a document set."""
    return documents == "all" or not (row["judged"] or (documents == "unpooled" and row["found"]))


def words(row: dict[str, Any], reference: str) -> set[str]:
    """The words that matter by a reference."""
    return {*row["topic"], *row["conclusion"]} if reference == "both" else {*row[reference]}
