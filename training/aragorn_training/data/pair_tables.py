"""Load the tables of `prepare pairs` as token ids for training and validation."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from aragorn.models.network import PaddedTexts
from aragorn.text.normalisation import tokenise_query
from aragorn.text.tokenisers import InputUnit, Tokeniser
from aragorn_training.data.distant_supervision import CandidateSettings, draw_negatives
from aragorn_training.data.split import CANDIDATES_PER_QUERY, POSITIVES
from aragorn_training.data.work_directory import (
    get_hard_negatives_file,
    iter_rows,
    read_prepared_manifest,
)


@dataclass(frozen=True)
class TrainingPairs:
    """Training queries with a positive (premise i for query i) and a negative premise each."""

    queries: PaddedTexts
    premises: PaddedTexts
    negatives: np.ndarray  # (queries,) row in `premises` of each query's negative


@dataclass(frozen=True)
class ValidationQueries:
    """Validation queries with CANDIDATES_PER_QUERY candidate premises each, relevant premises
    first.

    The premises of the validation split, POSITIVES per query, precede those of the training split.
    """

    queries: PaddedTexts
    premises: PaddedTexts
    candidates: np.ndarray  # (queries, candidates) premise rows
    tie_order: np.ndarray  # (premises,) position by docno; breaks ties in score
    docnos: list[str]  # of the premises
    premise_words: list[list[str]]  # premises as normalised words
    query_words: list[list[str]]  # queries as normalised words


def load_training_pairs(
    work_dir: Path, input_unit: InputUnit, tokeniser: Tokeniser, hard_negatives: str | None = None
) -> TrainingPairs:
    """Load training pairs with the negatives of the model `hard_negatives`, or sampled ones."""
    queries: list[list[int]] = []
    premises: list[list[int]] = []
    negatives: list[str] = []
    rows: dict[str, int] = {}
    columns = ["docno", "conclusion", "premise", "negatives"]
    for row in iter_rows(work_dir / f"train.{input_unit}.parquet", columns, work_dir):
        rows[row["docno"]] = len(queries)
        queries.append(tokeniser.encode_query(row["conclusion"]))
        premises.append(encode_premise(tokeniser, input_unit, row["premise"]))
        negatives.append(row["negatives"][0])
    if hard_negatives:
        file = get_hard_negatives_file(work_dir, hard_negatives)
        kind = f"pairs --hard-negatives {hard_negatives}"
        hard_rows = iter_rows(file, None, work_dir, kind)
        by_docno = {row["docno"]: row["unrelated_docno"] for row in hard_rows}
        negatives = [by_docno[docno] for docno in rows]
    negative_rows = np.array([rows[docno] for docno in negatives])
    texts = (PaddedTexts.from_ids(queries), PaddedTexts.from_ids(premises))
    return TrainingPairs(*texts, negative_rows)


def load_validation_queries(
    work_dir: Path, input_unit: InputUnit, tokeniser: Tokeniser, settings: CandidateSettings
) -> ValidationQueries:
    """Load the validation queries, one per normalised conclusion, with their candidates."""
    table = list(iter_rows(work_dir / f"validation.{input_unit}.parquet", None, work_dir))
    groups: dict[str, list[int]] = {}
    for row_index, row in enumerate(table):
        groups.setdefault(row["normalised_conclusion"], []).append(row_index)
    negatives = _load_negatives(work_dir, table, groups, settings)
    docnos = [row["docno"] for row in table]
    negative_docnos = {docno for query_negatives in negatives for docno in query_negatives}
    training_docnos = negative_docnos.difference(docnos)
    training_premises = _load_training_premises(work_dir, input_unit, training_docnos)
    docnos += training_premises
    rows = {docno: row_index for row_index, docno in enumerate(docnos)}
    candidates = [
        positives + [rows[docno] for docno in query_negatives]
        for positives, query_negatives in zip(groups.values(), negatives, strict=True)
    ]
    conclusions = [table[positives[0]]["conclusion"] for positives in groups.values()]
    premises = [*(row["premise"] for row in table), *training_premises.values()]
    word_rows = iter_rows(work_dir / "validation.words.parquet", ["premise"], work_dir)
    words = [row["premise"] for row in word_rows]
    words += _load_training_premises(work_dir, "words", training_docnos).values()
    docno_order = np.argsort(np.array(docnos, dtype=object), kind="stable")
    premise_ids = [encode_premise(tokeniser, input_unit, premise) for premise in premises]
    return ValidationQueries(
        queries=PaddedTexts.from_ids([*map(tokeniser.encode_query, conclusions)]),
        premises=PaddedTexts.from_ids(premise_ids),
        candidates=np.array(candidates).reshape(len(groups), CANDIDATES_PER_QUERY),
        tie_order=np.argsort(docno_order),
        docnos=docnos,
        premise_words=[premise.split() for premise in words],
        query_words=[tokenise_query(conclusion) for conclusion in conclusions],
    )


def _load_negatives(
    work_dir: Path,
    table: list[dict[str, Any]],
    groups: Mapping[str, list[int]],
    settings: CandidateSettings,
) -> list[list[str]]:
    """Load or draw the docnos of each query's negatives; `groups`: rows of `table` by query."""
    if (settings.pool, settings.rule) == ("split", "least_similar"):  # sampled by `prepare pairs`
        parts = ([table[row]["negatives"] for row in rows] for rows in groups.values())
        return [[*chain.from_iterable(part)] for part in parts]
    pool = table
    if settings.pool == "collection":
        columns = ["docno", "normalised_conclusion"]
        pool = [*table, *iter_rows(work_dir / "train.words.parquet", columns, work_dir)]
    conclusions = np.array([row["normalised_conclusion"] for row in pool], dtype=object)
    seed = read_prepared_manifest(work_dir).inputs["seed"]
    count = CANDIDATES_PER_QUERY - POSITIVES
    queries = np.array([*groups], dtype=object)
    rows_by_query = draw_negatives(conclusions, queries, count, settings.rule, seed)
    # Dealt to the positives in turn, as by `sample_negatives`: the first negatives of all positives
    # are the least similar.
    dealt = rows_by_query.reshape(len(groups), -1, POSITIVES).swapaxes(1, 2)
    return [[pool[row]["docno"] for row in rows.ravel()] for rows in dealt]


def _load_training_premises(
    work_dir: Path, input_unit: InputUnit, docnos: Set[str]
) -> dict[str, str]:
    """Load the premises of arguments of the training split by docno, in the table's order."""
    if not docnos:
        return {}
    rows = iter_rows(work_dir / f"train.{input_unit}.parquet", ["docno", "premise"], work_dir)
    return {row["docno"]: row["premise"] for row in rows if row["docno"] in docnos}


def encode_premise(tokeniser: Tokeniser, input_unit: InputUnit, premise: str) -> list[int]:
    """Convert a premise of the table of `input_unit` to token ids, truncated to its length."""
    if input_unit == "words":
        return tokeniser.to_ids(premise.split()[: tokeniser.lengths.premise])
    return tokeniser.encode_premise(premise)
