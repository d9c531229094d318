from __future__ import annotations

from math import log2

import numpy as np
import pytest
import torch

from submission.rankers.base import Ranker
from submission.rankers.gru import GRU
from submission.rankers.knrm import KNRM
from submission.scoring.batches import Padded, pad
from training.data.tables import Queries
from training.fitting.validation import by_ranker, measures


def scores(*ranks: int) -> np.ndarray:
    """Scores of one query that put the 5 related documents (the first columns) at these ranks of 105."""
    order = list(range(5, 105))
    for rank, document in sorted(zip(ranks, range(5), strict=True)):
        order.insert(rank - 1, document)
    values = np.empty(105)
    values[order] = np.arange(105, 0, -1)
    return values[None]


TIES = np.arange(105)[None]


def test_perfect_and_worst() -> None:
    assert measures(scores(1, 2, 3, 4, 5), TIES) == {"MRR@20": 100, "MAP@20": 100, "nDCG@20": 100}
    assert measures(scores(21, 22, 23, 24, 25), TIES) == {"MRR@20": 0, "MAP@20": 0, "nDCG@20": 0}


def test_by_hand() -> None:
    found = measures(scores(2, 5, 20, 21, 80), TIES)
    ideal = sum(1 / log2(rank + 1) for rank in range(1, 6))
    assert found == pytest.approx(
        {
            "MRR@20": 50,
            "MAP@20": 100 * (1 / 2 + 2 / 5 + 3 / 20) / 5,
            "nDCG@20": 100 * sum(1 / log2(rank + 1) for rank in (2, 5, 20)) / ideal,
        },
        abs=0.005,
    )


def test_means_over_queries() -> None:
    both = np.concatenate([scores(1, 2, 3, 4, 5), scores(21, 22, 23, 24, 25)])
    assert measures(both, np.repeat(TIES, 2, 0))["MAP@20"] == 50


def test_ties_are_not_in_favour_of_the_related() -> None:
    tied = np.zeros((1, 105))
    assert measures(tied, TIES[:, ::-1])["MAP@20"] == 0
    assert measures(tied, TIES)["MAP@20"] == 100


@pytest.mark.parametrize("ranker_class", [KNRM, GRU])
def test_a_ranker_validates_as_its_forward_scores(ranker_class: type[Ranker]) -> None:
    torch.manual_seed(3)
    ranker = ranker_class(ranker_class.Config(vocabulary=40, dimensions=6))
    rng = np.random.default_rng(3)
    texts = [rng.integers(2, 40, length).tolist() for length in (5, 1, 9, 3, 7, 2)]
    queries = Queries(Padded.of(texts[:3]), Padded.of(texts), rng.integers(0, 6, (3, 4)), np.arange(6), [], [])
    chosen = np.array([2, 0])
    found = by_ranker(ranker, torch.device("cpu"))(queries, chosen)
    assert ranker.training  # as before
    ranker.eval()
    with torch.no_grad():
        expected = [
            [ranker(*pad([texts[query]]), *pad([texts[document]])).item() for document in queries.candidates[query]]
            for query in chosen
        ]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert len(np.unique(expected)) > 3
