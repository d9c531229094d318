"""Load prepared pairs as token ids for training and validation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from submission.inference.batching import Padded
from submission.text.normalisation import query_words
from submission.text.token_ids import Reads
from submission.text.tokenisers import Tokeniser
from training.data.split import CANDIDATES
from training.data.work_directory import table_rows, unrelated_file


@dataclass(frozen=True)
class TrainingPairs:
    """Training pairs: row i holds a query, its positive premise i and the row of a negative."""

    queries: Padded
    premises: Padded
    unrelated: np.ndarray  # (N,) premise rows


@dataclass(frozen=True)
class Queries:
    """Validation queries with 105 candidate premises each, the 5 positives first."""

    queries: Padded
    premises: Padded
    candidates: np.ndarray  # (queries, 105) premise rows
    ties: np.ndarray  # (premises,) rank by docno, breaks ties
    texts: list[list[str]]  # premises as normalised words
    words: list[list[str]]  # queries as normalised words


def load_pairs(work: Path, reads: Reads, tokeniser: Tokeniser, others: str | None = None) -> TrainingPairs:
    """Load the training pairs.

    Args:
        work: working directory.
        reads: words or word pieces.
        tokeniser: maps texts to ids.
        others: name of the hard-negative table; None: negatives of the least similar conclusions.

    Raises:
        InputError: the tables or hard negatives are missing.
    """
    queries: list[list[int]] = []
    premises: list[list[int]] = []
    negatives: list[str] = []
    rows: dict[str, int] = {}
    for row in table_rows(work / f"train.{reads}.parquet", ["docno", "conclusion", "premise", "unrelated_docnos"]):
        rows[row["docno"]] = len(queries)
        queries.append(tokeniser.query(row["conclusion"]))
        premises.append(premise_ids(tokeniser, reads, row["premise"]))
        negatives.append(row["unrelated_docnos"][0])
    if others:
        hard_negatives = {row["docno"]: row["unrelated_docno"] for row in table_rows(unrelated_file(work, others), None)}
        negatives = [hard_negatives[docno] for docno in rows]
    return TrainingPairs(Padded.of(queries), Padded.of(premises), np.array([rows[docno] for docno in negatives]))


def load_validation(work: Path, reads: Reads, tokeniser: Tokeniser) -> Queries:
    """Load the validation table, grouped by query. Raises InputError if it is missing."""
    table = list(table_rows(work / f"validation.{reads}.parquet", None))
    rows = {row["docno"]: row_index for row_index, row in enumerate(table)}
    groups: dict[str, list[int]] = {}
    for row_index, row in enumerate(table):
        groups.setdefault(row["normalised_conclusion"], []).append(row_index)
    candidates = [
        positives + [rows[docno] for positive in positives for docno in table[positive]["unrelated_docnos"]]
        for positives in groups.values()
    ]
    conclusions = [table[positives[0]]["conclusion"] for positives in groups.values()]
    premises = [row["premise"] for row in table_rows(work / "validation.words.parquet", ["premise"])]
    docno_order = np.argsort(np.array([row["docno"] for row in table], dtype=object), kind="stable")
    return Queries(
        queries=Padded.of([tokeniser.query(conclusion) for conclusion in conclusions]),
        premises=Padded.of([premise_ids(tokeniser, reads, row["premise"]) for row in table]),
        candidates=np.array(candidates).reshape(len(groups), CANDIDATES),
        ties=np.argsort(docno_order),
        texts=[premise.split() for premise in premises],
        words=[query_words(conclusion) for conclusion in conclusions],
    )


def premise_ids(tokeniser: Tokeniser, reads: Reads, premise: str) -> list[int]:
    """Return the token ids of a premise as stored in a table."""
    return tokeniser.ids(premise.split()[: tokeniser.lengths.premise]) if reads == "words" else tokeniser.premise(premise)
