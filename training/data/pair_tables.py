"""Load prepared pairs as token ids for training and validation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from submission.inference.batching import PaddedTexts
from submission.text.normalisation import tokenise_query
from submission.text.token_ids import InputUnit
from submission.text.tokenisers import Tokeniser
from training.data.split import CANDIDATES_PER_QUERY
from training.data.work_directory import table_rows, unrelated_file


@dataclass(frozen=True)
class TrainingPairs:
    """Training pairs: row i holds a query, its positive premise i and the row of a negative."""

    queries: PaddedTexts
    premises: PaddedTexts
    negatives: np.ndarray  # (N,) premise rows


@dataclass(frozen=True)
class ValidationQueries:
    """Validation queries with 105 candidate premises each, the 5 positives first."""

    queries: PaddedTexts
    premises: PaddedTexts
    candidates: np.ndarray  # (queries, 105) premise rows
    tie_order: np.ndarray  # (premises,) rank by docno, breaks ties
    premise_words: list[list[str]]  # premises as normalised words
    query_words: list[list[str]]  # queries as normalised words


def load_training_pairs(work: Path, input_unit: InputUnit, tokeniser: Tokeniser, others: str | None = None) -> TrainingPairs:
    """Load the training pairs.

    Args:
        work: working directory.
        input_unit: words or word pieces.
        tokeniser: maps texts to ids.
        others: name of the hard-negative table; None: negatives of the least similar conclusions.

    Raises:
        InputError: the tables or hard negatives are missing.
    """
    queries: list[list[int]] = []
    premises: list[list[int]] = []
    negatives: list[str] = []
    rows: dict[str, int] = {}
    for row in table_rows(work / f"train.{input_unit}.parquet", ["docno", "conclusion", "premise", "unrelated_docnos"]):
        rows[row["docno"]] = len(queries)
        queries.append(tokeniser.encode_query(row["conclusion"]))
        premises.append(encode_premise(tokeniser, input_unit, row["premise"]))
        negatives.append(row["unrelated_docnos"][0])
    if others:
        hard_negatives = {row["docno"]: row["unrelated_docno"] for row in table_rows(unrelated_file(work, others), None)}
        negatives = [hard_negatives[docno] for docno in rows]
    return TrainingPairs(
        PaddedTexts.from_ids(queries), PaddedTexts.from_ids(premises), np.array([rows[docno] for docno in negatives])
    )


def load_validation_queries(work: Path, input_unit: InputUnit, tokeniser: Tokeniser) -> ValidationQueries:
    """Load the validation table, grouped by query. Raises InputError if it is missing."""
    table = list(table_rows(work / f"validation.{input_unit}.parquet", None))
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
    return ValidationQueries(
        queries=PaddedTexts.from_ids([tokeniser.encode_query(conclusion) for conclusion in conclusions]),
        premises=PaddedTexts.from_ids([encode_premise(tokeniser, input_unit, row["premise"]) for row in table]),
        candidates=np.array(candidates).reshape(len(groups), CANDIDATES_PER_QUERY),
        tie_order=np.argsort(docno_order),
        premise_words=[premise.split() for premise in premises],
        query_words=[tokenise_query(conclusion) for conclusion in conclusions],
    )


def encode_premise(tokeniser: Tokeniser, input_unit: InputUnit, premise: str) -> list[int]:
    """Return the token ids of a premise as stored in a table."""
    return (
        tokeniser.to_ids(premise.split()[: tokeniser.lengths.premise])
        if input_unit == "words"
        else tokeniser.encode_premise(premise)
    )
