from __future__ import annotations

from math import log2

import numpy as np
import pytest
import torch
from torch import Tensor

from submission.models.padding import PaddedTexts, pad
from submission.models.ranker import Ranker
from submission.models.rankers.gru import GRU
from submission.models.rankers.knrm import KNRM
from submission.models.rankers.snrm import SNRM
from training.data.pair_tables import ValidationQueries
from training.fitting.validation import candidate_metrics, full_collection_metrics, ranker_scorer


def scores(*ranks: int) -> np.ndarray:
    """Build the scores of one query that rank its 5 positives (first columns) at `ranks` of 105."""
    order = list(range(5, 105))
    for rank, document in sorted(zip(ranks, range(5), strict=True)):
        order.insert(rank - 1, document)
    values = np.empty(105)
    values[order] = np.arange(105, 0, -1)
    return values[None]


CPU = torch.device("cpu")
TIES = np.arange(105)[None]


def test_candidate_metrics_match_hand_computed_values() -> None:
    assert candidate_metrics(scores(1, 2, 3, 4, 5), TIES) == {"MRR@20": 100, "MAP@20": 100, "nDCG@20": 100}
    assert candidate_metrics(scores(21, 22, 23, 24, 25), TIES) == {"MRR@20": 0, "MAP@20": 0, "nDCG@20": 0}
    metrics = candidate_metrics(scores(2, 5, 20, 21, 80), TIES)
    ideal = sum(1 / log2(rank + 1) for rank in range(1, 6))
    assert metrics == pytest.approx(
        {
            "MRR@20": 50,
            "MAP@20": 100 * (1 / 2 + 2 / 5 + 3 / 20) / 5,
            "nDCG@20": 100 * sum(1 / log2(rank + 1) for rank in (2, 5, 20)) / ideal,
        },
        abs=0.005,
    )
    both = np.concatenate([scores(1, 2, 3, 4, 5), scores(21, 22, 23, 24, 25)])
    assert candidate_metrics(both, np.repeat(TIES, 2, 0))["MAP@20"] == 50
    # Ties follow the tie order, not relevance.
    tied = np.zeros((1, 105))
    assert candidate_metrics(tied, TIES[:, ::-1])["MAP@20"] == 0
    assert candidate_metrics(tied, TIES)["MAP@20"] == 100


@pytest.mark.parametrize("ranker_class", [KNRM, GRU])
def test_ranker_scorer_equals_forward(ranker_class: type[Ranker]) -> None:
    torch.manual_seed(3)
    ranker = ranker_class(ranker_class.Config(vocabulary=40, dimensions=6))
    rng = np.random.default_rng(3)
    texts = [rng.integers(2, 40, length).tolist() for length in (5, 1, 9, 3, 7, 2)]
    queries = ValidationQueries(
        PaddedTexts.from_ids(texts[:3]), PaddedTexts.from_ids(texts), rng.integers(0, 6, (3, 4)), np.arange(6), [], []
    )
    query_rows = np.array([2, 0])
    candidate_scores = ranker_scorer(ranker, CPU)(queries, query_rows)
    assert ranker.training
    ranker.eval()
    with torch.no_grad():
        expected = [
            [ranker(*pad([texts[query]]), *pad([texts[document]])).item() for document in queries.candidates[query]]
            for query in query_rows
        ]
    np.testing.assert_allclose(candidate_scores, expected, rtol=0, atol=1e-6)
    assert len(np.unique(expected)) > 3


class LookupNetwork(SNRM):
    """A network that encodes the text [n] as row n of a table."""

    def __init__(self, rows: list[list[float]]) -> None:
        super().__init__(SNRM.Config(2, 2, latent=2))
        self.rows = torch.tensor(rows)

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.rows[ids[:, 0]]

    def encode_batch(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.encode(ids, mask)


def texts(first: int, last: int) -> PaddedTexts:
    return PaddedTexts.from_ids([[row] for row in range(first, last)])


def test_full_collection_metrics_include_training_premises() -> None:
    positives = [[1.0, 0], [0.9, 0], [0.8, 0], [0.7, 0], [0, 1.0]]  # the last shares no latent term with the query
    training = [[0.85, 0], [0.7, 0], *([[0.75, 0]] * 7)]  # the second ties with the fourth positive
    ranker = LookupNetwork([[1.0, 0], *positives, *training])
    queries = ValidationQueries(texts(0, 1), texts(1, 6), np.arange(5)[None], np.arange(5), [], [])
    metrics = full_collection_metrics(ranker, queries, np.array([0]), texts(6, 15), CPU)
    ideal = sum(1 / log2(rank + 1) for rank in range(1, 6))
    gains = sum(1 / log2(rank + 1) for rank in (1, 2, 4))  # the fourth has rank 13
    assert metrics == {
        "nDCG@10 (full collection)": pytest.approx(100 * gains / ideal, abs=0.005),
        "recall@100 (full collection)": 80,
    }

    ranker = LookupNetwork([[1.0, 0], [0, 1.0], *([[1.0, 0]] * 5), *([[0, 1.0]] * 5)])
    queries = ValidationQueries(texts(0, 2), texts(2, 12), np.array([[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]), np.arange(10), [], [])
    assert full_collection_metrics(ranker, queries, np.array([0, 1]), texts(2, 3), CPU)["recall@100 (full collection)"] == 50
    assert full_collection_metrics(ranker, queries, np.array([1]), texts(2, 3), CPU) == {
        "nDCG@10 (full collection)": 0,
        "recall@100 (full collection)": 0,
    }
