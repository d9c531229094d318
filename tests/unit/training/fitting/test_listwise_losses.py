"""Test training lists, and invariances and gradients of listwise losses, whose values are tested in tests/golden."""

from __future__ import annotations

from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata
from torch import Tensor
from torch.nn import functional

from submission.errors import InputError
from training.data.quality import COLUMNS, load_table, table_path
from training.evaluation.similarity import mean_correlations
from training.fitting.listwise import build_ranked_lists, dense_ranks, stratify
from training.fitting.listwise_losses import LOSSES, MARGIN_MSE
from training.tasks.quality import QualitySpec

ALL = {**LOSSES, "margin_mse": MARGIN_MSE}
GRADED = torch.tensor([[3.0, 1, 2, 1, 5], [2, 4, 1, 3, -1], [1, 2, -1, -1, -1]]).double()
DISTINCT = torch.tensor([[3.0, 1, 2, 4, 5], [2, 4, 1, 3, -1], [1, 2, -1, -1, -1]]).double()


def random_scores(labels: Tensor, seed: int = 0) -> Tensor:
    return torch.randn(labels.shape, generator=torch.Generator().manual_seed(seed)).double()


def test_recipes_accept_all_losses() -> None:
    assert set(LOSSES) == {"mse", "hinge", "logistic", "softmax", "list_mle", "approx_ndcg"}
    assert set(get_args(get_type_hints(QualitySpec)["loss"])) == set(LOSSES)


@pytest.mark.parametrize("name", ALL)
def test_losses_ignore_order_and_padding_and_have_exact_gradients(name: str) -> None:
    labels = GRADED if name != "list_mle" else DISTINCT
    scores, loss = random_scores(labels), ALL[name]
    expected = loss(labels, scores)
    order = torch.tensor([4, 2, 0, 3, 1])
    torch.testing.assert_close(loss(labels[:, order], scores[:, order]), expected)
    torch.testing.assert_close(loss(labels[[2, 0, 1]], scores[[2, 0, 1]]), expected)
    wider = functional.pad(labels, (1, 3), value=-1), functional.pad(scores, (1, 3), value=torch.inf)
    torch.testing.assert_close(loss(*wider), expected)
    torch.testing.assert_close(loss(labels, scores.masked_fill(labels < 0, -5e3)), expected)
    extended = torch.cat([labels, torch.full((2, 5), -1.0)]), torch.cat([scores, torch.ones(2, 5)])
    torch.testing.assert_close(loss(*extended), expected)
    parts = [loss.weighted_sum(labels[rows], scores[rows]) for rows in (slice(0, 2), slice(2, 3))]
    torch.testing.assert_close(sum(parts) / loss.weight_count(labels), expected)
    assert torch.isclose(loss(labels, scores + 3), expected) == (name != "mse")  # only squared errors depend on a common shift
    torch.manual_seed(0)
    assert torch.autograd.gradcheck(lambda values: loss(labels, values), scores.clone().requires_grad_())


def test_margin_mse_matches_hand_computed_value() -> None:
    labels, scores = torch.tensor([[1.5, 0, 0.5, -1], [2, 2, 1, -1]]), torch.tensor([[3.0, 1, 2, 9], [0, 1, 0, 9]])
    squares = [(1.5 - 2) ** 2, (1 - 1) ** 2, (0.5 - 1) ** 2, (1 - 0) ** 2, (1 - 1) ** 2]  # pairs with different labels only
    assert MARGIN_MSE(labels, scores) == pytest.approx(sum(squares) / 5)
    assert MARGIN_MSE(labels, labels + 7) == 0


@pytest.mark.parametrize("name", ALL)
def test_losses_stay_finite_and_ignore_lists_without_labels(name: str) -> None:
    def loss_and_gradient(labels: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        loss = ALL[name](labels, scores.requires_grad_())
        loss.backward()  # type: ignore[no-untyped-call]
        assert scores.grad is not None
        return loss, scores.grad

    for size in (1.0, 1e4, -1e4):
        loss, slopes = loss_and_gradient(GRADED.float(), (random_scores(GRADED).sign() * size).float())
        assert loss.isfinite()
        assert slopes.isfinite().all()
    for label in (-1.0,) if name in {"mse", "list_mle"} else (0.0, -1.0):  # those two weight all items
        loss, slopes = loss_and_gradient(torch.full((1, 3), label), torch.tensor([[1.0, -2, 3]]))
        assert loss == 0
        assert slopes.abs().max() == 0


@pytest.mark.parametrize("name", ALL)
def test_optimising_a_loss_orders_the_lists(name: str) -> None:
    torch.manual_seed(0)
    labels = torch.stack([torch.randperm(8) + 1.0 for _ in range(10)])
    labels[::2, -2:] = -1
    if name == "mse":
        labels = torch.where(labels > 0, labels / 8, labels)
    scores = torch.zeros(10, 8, requires_grad=True)
    optimiser = torch.optim.Adam([scores], lr=0.05)
    for _ in range(300):
        optimiser.zero_grad()
        ALL[name](labels, scores).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    for row, values in zip(labels, scores.detach(), strict=True):
        assert values[row >= 0].argsort().tolist() == row[row >= 0].argsort().tolist()


SCORES = st.lists(st.integers(-5, 30), min_size=1, max_size=60).map(lambda values: np.array(values, dtype=float))


def table(*topics: tuple[str, str, list[float]]) -> pd.DataFrame:
    """Build a table from data sets, topics and argument scores."""
    rows = [(data, topic, topic, f"{data}-{topic}-{n}", "", score) for data, topic, s in topics for n, score in enumerate(s)]
    return pd.DataFrame(rows, columns=COLUMNS)


@given(SCORES, st.integers(2, 13))
def test_stratify_spreads_neighbours_over_all_lists(scores: np.ndarray, size: int) -> None:
    lists = stratify(scores, size)
    assert len(lists) == -(-len(scores) // size)
    assert sorted(np.concatenate(lists).tolist()) == list(range(len(scores)))
    sizes = [len(items) for items in lists]
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    ordered = np.sort(scores)
    for index in range(min(sizes)):
        neighbours = ordered[index * len(lists) : (index + 1) * len(lists)]
        assert sorted(scores[items[index]] for items in lists) == neighbours.tolist()
    assert dense_ranks(scores).tolist() == rankdata(scores, method="dense").tolist()


TOPICS = table(("ukp", "a", [0.5, -1.0, 0.5, 7.0, 3.0]), ("ibm", "a", [2.0, 1.0]), ("ukp", "b", [1.0, 1.0, 1.0]))


def labelled(settings: QualitySpec) -> list[dict[int, float]]:
    """Return the labels of each list by row."""
    lists = build_ranked_lists(TOPICS, settings.list_size, settings.ranks_within, settings.loss)
    return [
        dict(zip(rows[rows >= 0].tolist(), labels[rows >= 0].tolist(), strict=True))
        for rows, labels in zip(lists.rows, lists.labels, strict=True)
    ]


def test_lists_stay_within_topics_and_are_labelled_by_rank() -> None:
    lists = build_ranked_lists(TOPICS, 3, "list", "softmax")
    assert lists.rows.tolist() == [[1, 2, 3], [0, 4, -1], [6, 5, -1], [7, 8, 9]]
    assert lists.labels.tolist() == [[1, 2, 3], [1, 2, -1], [1, 2, -1], [1, 1, 1]]
    assert labelled(QualitySpec(("ukp",), 3, "topic")) == [{1: 1, 2: 2, 3: 4}, {0: 2, 4: 3}, {6: 1, 5: 2}, {7: 1, 8: 1, 9: 1}]
    third = pytest.approx(1 / 3)
    scaled = labelled(QualitySpec(("ukp",), 3, "list", "mse"))
    assert scaled == [{1: third, 2: pytest.approx(2 / 3), 3: 1}, {0: 0.5, 4: 1}, {6: 0.5, 5: 1}, {7: 1, 8: 1, 9: 1}]
    scaled = labelled(QualitySpec(("ukp",), 3, "topic", "mse"))
    assert scaled[:2] == [{1: 0.25, 2: 0.5, 3: 1}, {0: 0.5, 4: 0.75}]


def test_mean_correlations_average_over_topics() -> None:
    two = table(("ukp", "a", [1.0, 2, 3, 4]), ("ukp", "b", [1.0, 2]))
    correlations = mean_correlations(two, np.array([1.0, 2, 3, 4, 5, 0]))
    assert correlations == {"Pearson": 0.0, "Spearman": 0.0, "Kendall": 0.0}
    assert mean_correlations(two, np.array([0.0, 0, 0, 0, 0, 5]))["Spearman"] == 50
    with pytest.raises(InputError, match="ukp, topic 'b': all arguments have the same quality"):
        mean_correlations(TOPICS, np.arange(10.0))


def test_missing_or_damaged_tables_raise(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ukp.parquet: not found; run `python -m training prepare quality -i DIR --work"):
        load_table(tmp_path, "ukp")
    file = table_path(tmp_path, "ukp")
    file.parent.mkdir()
    file.write_bytes(b"PAR1 garbage")
    with pytest.raises(InputError, match=r"ukp.parquet: damaged .* run `python -m training prepare quality` again"):
        load_table(tmp_path, "ukp")
    TOPICS.drop(columns="debate").to_parquet(file)
    with pytest.raises(InputError, match="damaged"):
        load_table(tmp_path, "ukp")
    TOPICS.to_parquet(file)
    pd.testing.assert_frame_equal(load_table(tmp_path, "ukp"), TOPICS)
