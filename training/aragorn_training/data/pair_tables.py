"""Load the tables of `prepare pairs` as token ids for training and validation."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from aragorn.models.padding import PaddedTexts
from aragorn.text.normalisation import tokenise_query
from aragorn.text.tokenisers import Tokeniser
from aragorn.text.vocabulary import InputUnit

from aragorn_training.data.split import CANDIDATES_PER_QUERY
from aragorn_training.data.work_directory import get_hard_negatives_file, iter_rows


@dataclass(frozen=True)
class TrainingPairs:
    """Training queries, each with a positive and a negative premise; premise i is the positive of
    query i."""

    queries: PaddedTexts
    premises: PaddedTexts
    negatives: np.ndarray  # (queries,) row in `premises` of each query's negative


@dataclass(frozen=True)
class ValidationQueries:
    """Validation queries with CANDIDATES_PER_QUERY candidate premises each, relevant premises
    first."""

    queries: PaddedTexts
    premises: PaddedTexts
    candidates: np.ndarray  # (queries, candidates) premise rows
    tie_order: np.ndarray  # (premises,) position by docno; breaks ties in score
    premise_words: list[list[str]]  # premises as normalised words
    query_words: list[list[str]]  # queries as normalised words


def load_training_pairs(
    work_dir: Path, input_unit: InputUnit, tokeniser: Tokeniser, hard_negatives: str | None = None
) -> TrainingPairs:
    """Load training pairs with the negatives mined by the model `hard_negatives`, or, if None,
    those of `sample_negatives`."""
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
        kind = f"pairs --hard-negatives {hard_negatives}"
        hard_negative_rows = iter_rows(
            get_hard_negatives_file(work_dir, hard_negatives), None, work_dir, kind
        )
        hard_negative_by_docno = {
            row["docno"]: row["unrelated_docno"] for row in hard_negative_rows
        }
        negatives = [hard_negative_by_docno[docno] for docno in rows]
    negative_rows = np.array([rows[docno] for docno in negatives])
    return TrainingPairs(
        PaddedTexts.from_ids(queries), PaddedTexts.from_ids(premises), negative_rows
    )


def load_validation_queries(
    work_dir: Path, input_unit: InputUnit, tokeniser: Tokeniser
) -> ValidationQueries:
    """Load the validation queries, one per normalised conclusion, with their candidates."""
    table = list(iter_rows(work_dir / f"validation.{input_unit}.parquet", None, work_dir))
    rows = {row["docno"]: row_index for row_index, row in enumerate(table)}
    groups: dict[str, list[int]] = {}
    for row_index, row in enumerate(table):
        groups.setdefault(row["normalised_conclusion"], []).append(row_index)
    candidates = [
        positives
        + [rows[docno] for positive in positives for docno in table[positive]["negatives"]]
        for positives in groups.values()
    ]
    conclusions = [table[positives[0]]["conclusion"] for positives in groups.values()]
    premises = [
        row["premise"]
        for row in iter_rows(work_dir / "validation.words.parquet", ["premise"], work_dir)
    ]
    docno_order = np.argsort(np.array([row["docno"] for row in table], dtype=object), kind="stable")
    return ValidationQueries(
        queries=PaddedTexts.from_ids(
            [tokeniser.encode_query(conclusion) for conclusion in conclusions]
        ),
        premises=PaddedTexts.from_ids(
            [encode_premise(tokeniser, input_unit, row["premise"]) for row in table]
        ),
        candidates=np.array(candidates).reshape(len(groups), CANDIDATES_PER_QUERY),
        tie_order=np.argsort(docno_order),
        premise_words=[premise.split() for premise in premises],
        query_words=[tokenise_query(conclusion) for conclusion in conclusions],
    )


def encode_premise(tokeniser: Tokeniser, input_unit: InputUnit, premise: str) -> list[int]:
    """Convert a premise, as stored in the table of `input_unit`, to token ids, truncated to the
    premise length."""
    if input_unit == "words":
        return tokeniser.to_ids(premise.split()[: tokeniser.lengths.premise])
    return tokeniser.encode_premise(premise)
