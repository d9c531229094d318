"""Compare LazyAdam with Adam, and pairwise losses with hand-computed values."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from submission.errors import UsageError
from submission.models.ranker import Ranker, SiameseRanker
from submission.models.rankers.gru import GRU
from submission.models.rankers.knrm import KNRM
from submission.models.rankers.snrm import SNRM
from training.fitting.task import LazyAdam
from training.tasks.pairs import MaskedIds, hinge_loss, pairwise_loss


def build_tables(rows: int) -> list[tuple[nn.Embedding, torch.optim.Adam]]:
    """Build equal tables with sparse and dense gradients, and their optimisers."""
    torch.manual_seed(0)
    values = torch.randn(rows, 3)
    sparse, dense = (nn.Embedding.from_pretrained(values.clone(), freeze=False, sparse=sparse) for sparse in (True, False))
    return [(sparse, LazyAdam(sparse.parameters(), lr=0.1)), (dense, torch.optim.Adam(dense.parameters(), lr=0.1))]


def assert_near(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)


def test_lazy_adam_updates_only_rows_with_gradients() -> None:
    tables, history = build_tables(7), []
    history.append([table.weight.detach().clone() for table, _ in tables])
    for rows in ([1, 2, 1], [1, 3], [1, 4]):
        for table, optimiser in tables:
            table(torch.tensor(rows)).square().sum().backward()
            optimiser.step()
            optimiser.zero_grad()
        history.append([table.weight.detach().clone() for table, _ in tables])
    (start, _), (first, dense_first), _, (last, dense_last) = history
    assert_near(first[[1, 2]], dense_first[[1, 2]])
    assert_near(last[[1, 4]], dense_last[[1, 4]])  # the first gradient of row 4 is at the third step
    assert torch.equal(last[2], first[2])
    assert not torch.isclose(dense_last[2], dense_first[2]).any()  # Adam keeps updating it
    assert torch.equal(last[[0, 5, 6]], start[[0, 5, 6]])
    assert not torch.isclose(first[[1, 2]], start[[1, 2]]).any()


def test_lazy_adam_keeps_moments_of_rows_without_gradient() -> None:
    table = nn.Embedding(3, 1, sparse=True)
    optimiser = LazyAdam(table.parameters(), lr=0.1)
    start = table.weight[1].item()
    moved, mean, square = 0.0, 0.0, 0.0
    for step, (row, gradient) in enumerate([(1, 2.0), (2, 5.0), (1, -0.5)], start=1):
        (table(torch.tensor([row])) * gradient).sum().backward()
        optimiser.step()
        optimiser.zero_grad()
        if row == 1:
            mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
            moved -= 0.1 * (mean / (1 - 0.9**step)) / (math.sqrt(square / (1 - 0.999**step)) + 1e-8)
        assert table.weight[1].item() - start == pytest.approx(moved, abs=1e-6)


def test_lazy_adam_matches_adam_for_small_gradients() -> None:
    (sparse, lazy), (dense, adam) = build_tables(2)
    start = sparse.weight[1].detach().clone()
    for table, optimiser in ((sparse, lazy), (dense, adam)):
        (table(torch.tensor([1])) * torch.tensor([1e-7, -1e-8, 1e-6])).sum().backward()
        optimiser.step()
    assert_near(sparse.weight, dense.weight)
    assert_near(sparse.weight[1].detach() - start, torch.tensor([-0.1 / 1.1, 0.05, -0.1 / 1.01]))


def random_texts(length: int) -> MaskedIds:
    """Build four random texts, the last shorter than the others."""
    mask = torch.arange(length) < torch.tensor([[length], [length], [length], [length - 2]])
    return torch.randint(2, 30, (4, length)) * mask, mask


def batch() -> tuple[MaskedIds, MaskedIds, MaskedIds]:
    torch.manual_seed(1)
    return random_texts(5), random_texts(12), random_texts(9)


def test_hinge_loss_matches_hand_computed_value() -> None:
    assert hinge_loss(torch.tensor([3.0, 1.0]), torch.tensor([1.0, 2.5]), 1.0) == (0 + 2.5) / 2


@pytest.mark.parametrize("ranker", [GRU(GRU.Config(30, 8, hidden=4)), SNRM(SNRM.Config(30, 8, latent=10))])
def test_batched_premises_change_neither_loss_nor_gradients(ranker: SiameseRanker) -> None:
    query, positive, negative = batch()
    gradients = []
    for compute in (
        lambda: pairwise_loss(ranker, query, positive, negative, 1.0, 0.0),
        lambda: hinge_loss(ranker(*query, *positive), ranker(*query, *negative), 1.0),
    ):
        torch.manual_seed(2)  # dropout
        value = compute()
        gradients.append([value, *torch.autograd.grad(value, list(ranker.parameters()))])
    assert gradients[0][0] > 0.1
    for batched, separate in zip(*gradients, strict=True):
        assert_near(batched, separate)


def test_l1_penalty_covers_all_latent_vectors() -> None:
    ranker, texts = SNRM(SNRM.Config(30, 8, latent=10)), batch()
    added = pairwise_loss(ranker, *texts, 1.0, 0.5) - pairwise_loss(ranker, *texts, 1.0, 0.0)
    norms = sum(ranker.encode(*part).abs().sum().item() for part in texts)
    assert added.item() == pytest.approx(0.5 * norms / 4, abs=1e-5)


@pytest.mark.parametrize("ranker", [GRU(GRU.Config(30, 8, hidden=4)), KNRM(KNRM.Config(30, 8))])
def test_l1_penalty_needs_latent_vectors(ranker: Ranker) -> None:
    with pytest.raises(UsageError, match="has no latent vectors"):
        pairwise_loss(ranker, *batch(), 1.0, 0.5)
