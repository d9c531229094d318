"""The prepared tables as ids: what a network trains and validates on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from submission.errors import InputError
from submission.scoring.batches import Padded
from submission.text.ids import Reads
from submission.text.normalise import query_words
from submission.text.tokenisers import Tokeniser
from training.data.forms import premise_ids
from training.data.protocol import CANDIDATES


@dataclass(frozen=True)
class TrainingPairs:
    """Training arguments: row i has the query, its related premise i and an unrelated premise."""

    queries: Padded
    premises: Padded
    unrelated: np.ndarray  # (N,) row numbers


@dataclass(frozen=True)
class Queries:
    """Validation: each query with 105 premises, the 5 related ones first."""

    queries: Padded
    premises: Padded
    candidates: np.ndarray  # (queries, 105) row numbers of premises
    ties: np.ndarray  # (premises,) order of the ids, which breaks ties
    texts: list[list[str]]  # premises in word form
    words: list[list[str]]  # queries in word form


def load_pairs(work: Path, reads: Reads, tokeniser: Tokeniser, others: str | None = None) -> TrainingPairs:
    """The training table.

    Args:
        work: what `prepare pairs` wrote.
        reads: the form of the premises.
        tokeniser: gives the ids.
        others: the name of other unrelated premises; None: those of the least similar conclusions.

    Raises:
        InputError: `prepare pairs` has not been run, or not with these unrelated premises.
    """
    queries: list[list[int]] = []
    premises: list[list[int]] = []
    unrelated: list[str] = []
    rows: dict[str, int] = {}
    for row in table_rows(work / f"train.{reads}.parquet", ["docno", "conclusion", "premise", "unrelated_docnos"]):
        rows[row["docno"]] = len(queries)
        queries.append(tokeniser.query(row["conclusion"]))
        premises.append(premise_ids(tokeniser, reads, row["premise"]))
        unrelated.append(row["unrelated_docnos"][0])
    if others:
        found = {row["docno"]: row["unrelated_docno"] for row in table_rows(unrelated_file(work, others), None)}
        unrelated = [found[docno] for docno in rows]
    return TrainingPairs(Padded.of(queries), Padded.of(premises), np.array([rows[docno] for docno in unrelated]))


def unrelated_file(work: Path, name: str) -> Path:
    """The table of unrelated premises that are not those of the least similar conclusions."""
    return work / name / "unrelated.parquet"


def load_validation(work: Path, reads: Reads, tokeniser: Tokeniser) -> Queries:
    """The validation table, grouped into queries. Raises InputError where `prepare pairs` has not been run."""
    table = list(table_rows(work / f"validation.{reads}.parquet", None))
    rows = {row["docno"]: number for number, row in enumerate(table)}
    groups: dict[str, list[int]] = {}
    for number, row in enumerate(table):
        groups.setdefault(row["normalised_conclusion"], []).append(number)
    candidates = [
        members + [rows[docno] for member in members for docno in table[member]["unrelated_docnos"]]
        for members in groups.values()
    ]
    conclusions = [table[members[0]]["conclusion"] for members in groups.values()]
    words = [row["premise"] for row in table_rows(work / "validation.words.parquet", ["premise"])]
    order = np.argsort(np.array([row["docno"] for row in table], dtype=object), kind="stable")
    return Queries(
        queries=Padded.of([tokeniser.query(text) for text in conclusions]),
        premises=Padded.of([premise_ids(tokeniser, reads, row["premise"]) for row in table]),
        candidates=np.array(candidates).reshape(len(groups), CANDIDATES),
        ties=np.argsort(order),
        texts=[text.split() for text in words],
        words=[query_words(text) for text in conclusions],
    )


def table_rows(file: Path, columns: list[str] | None) -> Iterator[dict[str, Any]]:
    """The rows of a table, all of their columns or some. Raises InputError where `prepare pairs` has not been run."""
    try:
        for batch in pq.ParquetFile(file).iter_batches(2_000, columns=columns):
            yield from batch.to_pylist()
    except FileNotFoundError:
        raise InputError(f"{file}: missing; `python -m training prepare pairs` makes it") from None
