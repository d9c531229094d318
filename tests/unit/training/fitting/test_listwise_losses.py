"""Test training lists, their labels and MarginMSE; the other listwise losses are tested in tests/golden."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import rankdata

from training.data.quality import COLUMNS
from training.fitting.listwise import RankScope, build_ranked_lists, compute_dense_ranks, stratify
from training.fitting.listwise_losses import MARGIN_MSE


def test_margin_mse_matches_hand_computed_value() -> None:
    labels, scores = torch.tensor([[1.5, 0, 0.5, -1], [2, 2, 1, -1]]), torch.tensor([[3.0, 1, 2, 9], [0, 1, 0, 9]])
    squares = [(1.5 - 2) ** 2, (1 - 1) ** 2, (0.5 - 1) ** 2, (1 - 0) ** 2, (1 - 1) ** 2]  # pairs with different labels only
    assert MARGIN_MSE(labels, scores) == pytest.approx(sum(squares) / 5)
    assert MARGIN_MSE(labels, labels + 7) == 0


@pytest.mark.parametrize(("count", "size"), [(1, 2), (12, 4), (13, 4), (60, 13), (59, 2)])
def test_stratify_spreads_neighbours_over_all_lists(count: int, size: int) -> None:
    scores = np.random.default_rng(count).integers(-5, 30, count).astype(float)
    lists = stratify(scores, size)
    assert len(lists) == -(-len(scores) // size)
    assert sorted(np.concatenate(lists).tolist()) == list(range(len(scores)))
    sizes, ordered = [len(items) for items in lists], np.sort(scores)
    assert max(sizes) - min(sizes) <= 1
    for index in range(min(sizes)):
        neighbours = ordered[index * len(lists) : (index + 1) * len(lists)]
        assert sorted(scores[items[index]] for items in lists) == neighbours.tolist()
    assert compute_dense_ranks(scores).tolist() == rankdata(scores, method="dense").tolist()


TOPICS = [("ukp", "a", [0.5, -1.0, 0.5, 7.0, 3.0]), ("ibm", "a", [2.0, 1.0]), ("ukp", "b", [1.0, 1.0, 1.0])]
ROWS = [[1, 2, 3], [0, 4, -1], [6, 5, -1], [7, 8, 9]]


@pytest.mark.parametrize(
    ("scope", "loss", "labels"),
    [
        ("list", "softmax", [[1, 2, 3], [1, 2, -1], [1, 2, -1], [1, 1, 1]]),
        ("topic", "softmax", [[1, 2, 4], [2, 3, -1], [1, 2, -1], [1, 1, 1]]),
        ("list", "mse", [[1 / 3, 2 / 3, 1], [0.5, 1, -1], [0.5, 1, -1], [1, 1, 1]]),
        ("list", "pointwise", [[0, 3 / 16, 1], [3 / 16, 0.5, -1], [0, 1, -1], [0.25, 0.25, 0.25]]),
        ("topic", "mse", [[0.25, 0.5, 1], [0.5, 0.75, -1], [0.5, 1, -1], [1, 1, 1]]),
    ],
)
def test_lists_stay_within_topics_and_have_labels(scope: RankScope, loss: str, labels: list[list[float]]) -> None:
    rows = [(data, topic, topic, f"{n}", "", score) for data, topic, scores in TOPICS for n, score in enumerate(scores)]
    lists = build_ranked_lists(pd.DataFrame(rows, columns=COLUMNS), 3, scope, loss)
    assert lists.rows.tolist() == ROWS
    np.testing.assert_allclose(lists.labels, labels, rtol=1e-6)
