"""What losses over lists are beyond single values (those are in tests/golden): sums over real items, with slopes that order."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from training.quality.losses import LOSSES, MARGIN_MSE
from training.tasks.lists import Lists

ALL = {**LOSSES, "margin_mse": MARGIN_MSE}
DETERMINED = sorted(set(ALL) - {"list_mle"})
GRADED = torch.tensor([[3.0, 1, 2, 1, 5], [2, 4, 1, 3, -1], [1, 2, -1, -1, -1]]).double()
DISTINCT = torch.tensor([[3.0, 1, 2, 4, 5], [2, 4, 1, 3, -1], [1, 2, -1, -1, -1]]).double()


def drawn(labels: Tensor, seed: int = 0) -> Tensor:
    return torch.randn(labels.shape, generator=torch.Generator().manual_seed(seed)).double()


def test_the_recipes_losses_are_all_of_them() -> None:
    assert set(LOSSES) == {"mse", "hinge", "logistic", "softmax", "list_mle", "approx_ndcg"}
    assert set(get_args(get_type_hints(Lists)["loss"])) == set(LOSSES)


@pytest.mark.parametrize("name", ALL)
def test_neither_order_nor_padding_counts(name: str) -> None:
    labels = GRADED if name != "list_mle" else DISTINCT
    scores, loss = drawn(labels), ALL[name]
    expected = loss(labels, scores)
    order = torch.tensor([4, 2, 0, 3, 1])
    torch.testing.assert_close(loss(labels[:, order], scores[:, order]), expected)
    torch.testing.assert_close(loss(labels[[2, 0, 1]], scores[[2, 0, 1]]), expected)
    wider = functional.pad(labels, (1, 3), value=-1), functional.pad(scores, (1, 3), value=torch.inf)
    torch.testing.assert_close(loss(*wider), expected)
    torch.testing.assert_close(loss(labels, scores.masked_fill(labels < 0, -5e3)), expected)
    more = torch.cat([labels, torch.full((2, 5), -1.0)]), torch.cat([scores, torch.ones(2, 5)])
    torch.testing.assert_close(loss(*more), expected)


@pytest.mark.parametrize("name", ALL)
def test_only_the_squares_see_what_is_added_to_all_scores(name: str) -> None:
    scores, loss = drawn(DISTINCT), ALL[name]
    near = torch.isclose(loss(DISTINCT, scores + 3), loss(DISTINCT, scores))
    assert bool(near) == (name != "mse")


@pytest.mark.parametrize("name", ALL)
def test_a_batch_in_parts_is_the_batch(name: str) -> None:
    scores, loss = drawn(DISTINCT), ALL[name]
    parts = [loss.total(DISTINCT[rows], scores[rows]) for rows in (slice(0, 2), slice(2, 3))]
    torch.testing.assert_close(sum(parts) / loss.counted(DISTINCT), loss(DISTINCT, scores))


def test_margins_by_hand() -> None:
    labels, scores = torch.tensor([[1.5, 0, 0.5, -1], [2, 2, 1, -1]]), torch.tensor([[3.0, 1, 2, 9], [0, 1, 0, 9]])
    squares = [(1.5 - 2) ** 2, (1 - 1) ** 2, (0.5 - 1) ** 2, (1 - 0) ** 2, (1 - 1) ** 2]  # no pair of equal labels
    assert MARGIN_MSE(labels, scores) == pytest.approx(sum(squares) / 5)
    assert MARGIN_MSE(labels, labels + 7) == 0


def test_hinge_is_0_where_all_gaps_are_1() -> None:
    labels = torch.tensor([[1.0, 2, 3, -1]])
    assert ALL["hinge"](labels, torch.tensor([[0.0, 1, 2, 9]])) == 0
    assert ALL["hinge"](labels, torch.tensor([[0.0, 1, 1.5, 9]])) == pytest.approx(0.5 / 3)


def test_list_mle_of_two_items_is_logistic() -> None:
    labels, scores = torch.tensor([[2.0, 1], [0, 1]]).double(), torch.tensor([[0.3, 0.9], [-1, 4]]).double()
    torch.testing.assert_close(ALL["list_mle"](labels, scores), ALL["logistic"](labels, scores))


def test_softmax_of_one_label_is_cross_entropy() -> None:
    scores = drawn(GRADED)
    labels = functional.one_hot(torch.tensor([3, 0, 4]), 5).double()
    torch.testing.assert_close(ALL["softmax"](labels, scores), functional.cross_entropy(scores, torch.tensor([3, 0, 4])))


def test_approx_ndcg_becomes_ndcg_where_scores_lie_far_apart() -> None:
    labels, loss = torch.tensor([[0.0, 1, 3, 2]]).double(), ALL["approx_ndcg"]
    assert loss(labels, 1e3 * labels) == pytest.approx(-1)
    gains, discounts = torch.tensor([0.0, 1, 7, 3]).double(), 1 / torch.tensor([2.0, 3, 4, 5]).double().log2()
    worst = ((gains * discounts).sum() / (gains.sort(descending=True)[0] * discounts).sum()).item()
    assert loss(labels, torch.tensor([[4e3, 3e3, 2e3, 1e3]]).double()) == pytest.approx(-worst)
    for seed in range(20):
        assert -1 <= loss(DISTINCT, drawn(DISTINCT, seed)) <= 0


@pytest.mark.parametrize("name", ALL)
def test_gradients_are_those_of_the_values(name: str) -> None:
    labels = GRADED if name != "list_mle" else DISTINCT
    loss = ALL[name]
    torch.manual_seed(0)
    assert torch.autograd.gradcheck(lambda scores: loss(labels, scores), drawn(labels).requires_grad_())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("size", [1.0, 1e4, -1e4])
def test_large_scores_stay_numbers(name: str, size: float) -> None:
    scores = (drawn(GRADED).sign() * size).float().requires_grad_()
    loss = ALL[name](GRADED.float(), scores)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.isfinite()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("label", [0.0, -1.0])
def test_lists_without_grades_are_worth_nothing(name: str, label: float) -> None:
    if label == 0 and name in {"mse", "list_mle"}:
        pytest.skip("of which every item counts")
    scores = torch.tensor([[1.0, -2, 3]]).requires_grad_()
    loss = ALL[name](torch.full((1, 3), label), scores)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss == 0
    assert scores.grad is not None
    assert scores.grad.abs().max() == 0


@pytest.mark.parametrize("name", ALL)
def test_ten_lists_are_ordered_in_300_steps(name: str) -> None:
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
    for own, found in zip(labels, scores.detach(), strict=True):
        assert found[own >= 0].argsort().tolist() == own[own >= 0].argsort().tolist()
