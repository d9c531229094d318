"""Compare LazyAdam with Adam, and pairwise losses with hand-computed values."""

from __future__ import annotations

import math
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from submission.errors import UsageError
from submission.models.padding import PaddedTexts
from submission.models.ranker import SiameseRanker
from submission.models.rankers.gru import GRU
from submission.models.rankers.knrm import KNRM
from submission.models.rankers.snrm import SNRM
from training.data.pair_tables import TrainingPairs
from training.fitting.recipe import Recipe
from training.fitting.task import LazyAdam
from training.fitting.training_loop import take_step
from training.tasks.pairs import MaskedIds, PairwiseSpec, PairwiseTask, hinge_loss, pairwise_loss

CPU = torch.device("cpu")
RECURRING = list(range(2, 7))  # words of every batch
BATCHES = [list(range(start, start + 10)) for start in (10, 20, 30)]  # words of one batch only
NEVER = list(range(40, 50))  # words of no batch


def pairs() -> TrainingPairs:
    """Build three batches of four pairs; some words recur in every batch, the others occur in one batch only."""
    rng = np.random.default_rng(0)

    def texts(length: int) -> PaddedTexts:
        return PaddedTexts.from_ids([list(rng.choice(RECURRING + words, length - i)) for words in BATCHES for i in range(4)])

    queries, premises = texts(6), texts(20)
    for rows in np.arange(12).reshape(3, 4):  # random texts may lack some words
        premises.ids[rows[0], :5] = torch.tensor(RECURRING).int()
        premises.ids[rows[1], :10] = torch.tensor(BATCHES[rows[0] // 4]).int()
    return TrainingPairs(queries, premises, np.arange(12) // 4 * 4 + (np.arange(12) + 1) % 4)


def task(data: TrainingPairs) -> PairwiseTask:
    """Build a task without validation queries."""
    return PairwiseTask(data, SimpleNamespace(candidates=()), Recipe(ranker="knrm", task=PairwiseSpec()), CPU)  # type: ignore[arg-type]


def build_sparse_and_dense() -> tuple[KNRM, LazyAdam, KNRM, torch.optim.Adam]:
    """Build equal networks with sparse and dense embeddings, and their optimisers."""
    torch.manual_seed(0)
    lazy = KNRM(KNRM.Config(vocabulary=50, dimensions=8, dropout=0.0))
    dense = deepcopy(lazy)
    lazy.embedding.sparse = True
    return lazy, LazyAdam(lazy.parameters(), lr=0.01), dense, torch.optim.Adam(dense.parameters(), lr=0.01)


def assert_near(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)


def test_lazy_adam_updates_only_rows_with_gradients() -> None:
    lazy, lazy_optimiser, dense, adam = build_sparse_and_dense()
    before, tables, dense_tables = lazy.embedding.weight.detach().clone(), [], []
    for rows in np.arange(12).reshape(3, 4):
        losses = [take_step(r, o, task(pairs()), rows, 4) for r, o in ((lazy, lazy_optimiser), (dense, adam))]
        assert losses[0] == pytest.approx(losses[1], abs=1e-6)
        tables.append(lazy.embedding.weight.detach().clone())
        dense_tables.append(dense.embedding.weight.detach().clone())
    updated = RECURRING + BATCHES[0]
    assert_near(tables[0][updated], dense_tables[0][updated])
    assert ((tables[0] - before)[updated].abs().amax(1) > 0.005).all()
    recent = RECURRING + BATCHES[2]  # first gradients of the latter at the third step
    assert_near(tables[-1][recent], dense_tables[-1][recent])
    assert_near(lazy.linear.weight, dense.linear.weight)
    assert torch.equal(tables[-1][BATCHES[0]], tables[0][BATCHES[0]])
    assert ((dense_tables[-1] - dense_tables[0])[BATCHES[0]].abs().amax(1) > 0.005).all()  # Adam keeps updating them
    assert torch.equal(tables[-1][NEVER], before[NEVER])


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
    tables = [nn.Embedding.from_pretrained(torch.zeros(2, 3), freeze=False, sparse=sparse) for sparse in (True, False)]
    for table, optimiser_class in zip(tables, (LazyAdam, torch.optim.Adam), strict=True):
        optimiser = optimiser_class(table.parameters(), lr=0.1)
        (table(torch.tensor([1])) * torch.tensor([1e-7, -1e-8, 1e-6])).sum().backward()
        optimiser.step()
    assert_near(tables[0].weight, tables[1].weight)
    assert_near(tables[0].weight[1].detach(), torch.tensor([-0.1 / 1.1, 0.05, -0.1 / 1.01]))


def random_texts(length: int) -> MaskedIds:
    """Build four random texts, the last shorter than the others."""
    mask = torch.arange(length) < torch.tensor([[length], [length], [length], [length - 2]])
    return torch.randint(2, 30, (4, length)) * mask, mask


def batch() -> tuple[MaskedIds, MaskedIds, MaskedIds]:
    torch.manual_seed(1)
    return random_texts(5), random_texts(12), random_texts(9)


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
    ranker = SNRM(SNRM.Config(30, 8, latent=10))
    texts = batch()
    vectors = [ranker.encode(*part) for part in texts]
    added = pairwise_loss(ranker, *texts, 1.0, 0.5) - pairwise_loss(ranker, *texts, 1.0, 0.0)
    assert added.item() == pytest.approx(0.5 * sum(part.abs().sum().item() for part in vectors) / 4, abs=1e-5)
    assert added > 0.1
    for ranker_without_vectors in (GRU(GRU.Config(30, 8, hidden=4)), KNRM(KNRM.Config(30, 8))):
        with pytest.raises(UsageError, match="has no latent vectors"):
            pairwise_loss(ranker_without_vectors, *batch(), 1.0, 0.5)
