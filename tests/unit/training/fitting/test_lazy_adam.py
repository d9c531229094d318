"""Lazy Adam on embedding tables: equality with Adam, skipped rows, and losses."""

from __future__ import annotations

import io
import math
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from training.fitting.lazy_adam import LazyAdam
from training.fitting.pairwise_losses import MaskedIds

from submission.errors import UsageError
from submission.inference.batching import PaddedTexts
from submission.models.ranker import SiameseRanker
from submission.models.rankers.gru import GRU
from submission.models.rankers.knrm import KNRM
from submission.models.rankers.snrm import SNRM
from training.data.pair_tables import TrainingPairs
from training.fitting import pairwise_losses
from training.fitting.recipe import Recipe
from training.fitting.training_loop import take_step
from training.tasks.pairs import PairwiseSpec, PairwiseTask

CPU = torch.device("cpu")
STEADY = list(range(2, 7))  # words of every batch
BATCHES = [list(range(start, start + 10)) for start in (10, 20, 30)]  # words of one batch alone
NEVER = list(range(40, 50))  # words of no batch


def pairs() -> TrainingPairs:
    """Three batches of four pairs; texts repeat words, and each batch has words that no other has."""
    rng = np.random.default_rng(0)

    def texts(length: int) -> PaddedTexts:
        return PaddedTexts.from_ids([list(rng.choice(STEADY + words, length - i)) for words in BATCHES for i in range(4)])

    queries, premises = texts(6), texts(20)
    for rows in np.arange(12).reshape(3, 4):  # the random ones may miss some: these texts hold the words between them
        premises.ids[rows[0], :5] = torch.tensor(STEADY).int()
        premises.ids[rows[1], :10] = torch.tensor(BATCHES[rows[0] // 4]).int()
    return TrainingPairs(queries, premises, np.arange(12) // 4 * 4 + (np.arange(12) + 1) % 4)


def task(data: TrainingPairs) -> PairwiseTask:
    """The pairs to learn from, without any query to validate on."""
    return PairwiseTask(data, SimpleNamespace(candidates=()), Recipe(ranker="knrm", task=PairwiseSpec()), CPU)  # type: ignore[arg-type]


def twins() -> tuple[KNRM, LazyAdam, KNRM, torch.optim.Adam]:
    """A network with a lazy and one with a whole table, with their optimisers."""
    torch.manual_seed(0)
    lazy = KNRM(KNRM.Config(vocabulary=50, dimensions=8, dropout=0.0))
    dense = deepcopy(lazy)
    lazy.embedding.sparse = True
    return lazy, LazyAdam(lazy.parameters(), lr=0.01), dense, torch.optim.Adam(dense.parameters(), lr=0.01)


def near(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_lazy_adam_updates_only_rows_with_gradients() -> None:
    lazy, ours, dense, theirs = twins()
    before = lazy.embedding.weight.detach().clone()
    tables, whole_tables = [], []
    for rows in np.arange(12).reshape(3, 4):
        losses_ = [take_step(r, o, task(pairs()), rows, 4) for r, o in ((lazy, ours), (dense, theirs))]
        assert losses_[0] == pytest.approx(losses_[1], abs=1e-6)
        tables.append(lazy.embedding.weight.detach().clone())
        whole_tables.append(dense.embedding.weight.detach().clone())
    seen = STEADY + BATCHES[0]
    unseen = sorted(set(range(50)) - set(seen))
    near(tables[0][seen], whole_tables[0][seen])
    assert ((tables[0] - before)[seen].abs().amax(1) > 0.005).all()
    assert torch.equal(tables[0][unseen], before[unseen])
    near(tables[-1][STEADY], whole_tables[-1][STEADY])
    near(tables[-1][BATCHES[2]], whole_tables[-1][BATCHES[2]])  # a first gradient, at the third step
    near(lazy.linear.weight, dense.linear.weight)
    near(lazy.linear.bias, dense.linear.bias)
    assert torch.equal(tables[-1][BATCHES[0]], tables[0][BATCHES[0]])
    assert ((whole_tables[-1] - whole_tables[0])[BATCHES[0]].abs().amax(1) > 0.005).all()  # Adam goes on moving them
    assert torch.equal(tables[-1][NEVER], before[NEVER])


def test_lazy_adam_keeps_moments_of_skipped_rows() -> None:
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


def test_lazy_adam_handles_small_gradients() -> None:
    tables = [nn.Embedding.from_pretrained(torch.zeros(2, 3), freeze=False, sparse=sparse) for sparse in (True, False)]
    for table, kind in zip(tables, (LazyAdam, torch.optim.Adam), strict=True):
        optimiser = kind(table.parameters(), lr=0.1)
        (table(torch.tensor([1])) * torch.tensor([1e-7, -1e-8, 1e-6])).sum().backward()
        optimiser.step()
    near(tables[0].weight, tables[1].weight)
    near(tables[0].weight[1].detach(), torch.tensor([-0.1 / 1.1, 0.05, -0.1 / 1.01]))


def test_micro_batches_equal_one_batch() -> None:
    results = []
    for micro in (12, 4, 1):
        lazy, optimiser, *_ = twins()
        loss = take_step(lazy, optimiser, task(pairs()), np.arange(12), micro)
        results.append([*lazy.state_dict().values(), torch.tensor(loss)])
    for parts in results[1:]:
        for ours, batch_gradient in zip(parts, results[0], strict=True):
            near(ours, batch_gradient)

    lazy, optimiser, *_ = twins()
    data = pairs()
    query, related, unrelated = (
        texts.batch(rows, CPU)
        for texts, rows in ((data.queries, np.arange(3)), (data.premises, np.arange(3)), (data.premises, data.negatives[:3]))
    )
    expected = pairwise_losses.hinge_loss(lazy(*query, *related), lazy(*query, *unrelated), 1.0).item()
    loss = take_step(lazy, optimiser, task(data), np.arange(3), 2)  # of 2 and of 1
    assert loss == pytest.approx(expected, abs=1e-6)


def test_lazy_adam_is_deterministic_and_resumable() -> None:
    (lazy, optimiser, *_), (again, same, *_), (resumed, resumed_optimiser, *_) = (twins() for _ in range(3))
    steps = np.arange(12).reshape(3, 4)
    for ranker, ranker_optimiser in ((lazy, optimiser), (again, same)):
        for rows in steps[:2]:
            take_step(ranker, ranker_optimiser, task(pairs()), rows, 2)
    buffer = io.BytesIO()
    torch.save({"ranker": lazy.state_dict(), "optimiser": optimiser.state_dict()}, buffer)
    buffer.seek(0)
    saved = torch.load(buffer, weights_only=True)
    resumed.load_state_dict(saved["ranker"])
    resumed_optimiser.load_state_dict(saved["optimiser"])
    for ranker, ranker_optimiser in ((lazy, optimiser), (again, same), (resumed, resumed_optimiser)):
        take_step(ranker, ranker_optimiser, task(pairs()), steps[2], 4)
        take_step(ranker, ranker_optimiser, task(pairs()), steps[0], 4)
    for name, value in lazy.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
        assert torch.equal(value, resumed.state_dict()[name])


def text(words: int) -> MaskedIds:
    """Four texts, the last one shorter than the others."""
    mask = torch.arange(words) < torch.tensor([[words], [words], [words], [words - 2]])
    return torch.randint(2, 30, (4, words)) * mask, mask


def batch() -> tuple[MaskedIds, MaskedIds, MaskedIds]:
    torch.manual_seed(1)
    return text(5), text(12), text(9)


@pytest.mark.parametrize("ranker", [GRU(GRU.Config(30, 8, hidden=4)), SNRM(SNRM.Config(30, 8, latent=10))])
def test_joint_premise_encoding_keeps_loss_and_gradients(ranker: SiameseRanker) -> None:
    query, related, unrelated = batch()
    gradients = []
    for compute in (
        lambda: pairwise_losses.pairwise_loss(ranker, query, related, unrelated, 1.0, 0.0),
        lambda: pairwise_losses.hinge_loss(ranker(*query, *related), ranker(*query, *unrelated), 1.0),
    ):
        torch.manual_seed(2)  # dropout's
        value = compute()
        gradients.append([value, *torch.autograd.grad(value, list(ranker.parameters()))])
    assert gradients[0][0] > 0.1
    for ours, apart in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, apart, rtol=0, atol=1e-6)


def test_sparsity_penalty_is_the_l1_norm_of_latent_vectors() -> None:
    ranker = SNRM(SNRM.Config(30, 8, latent=10))
    texts = batch()
    vectors = [ranker.encode(*part) for part in texts]
    added = pairwise_losses.pairwise_loss(ranker, *texts, 1.0, 0.5) - pairwise_losses.pairwise_loss(ranker, *texts, 1.0, 0.0)
    assert added.item() == pytest.approx(0.5 * pairwise_losses.l1_norm(*vectors).item(), abs=1e-6)
    assert added > 0.1
    for without in (GRU(GRU.Config(30, 8, hidden=4)), KNRM(KNRM.Config(30, 8))):
        with pytest.raises(UsageError, match="has no latent vectors"):
            pairwise_losses.pairwise_loss(without, *batch(), 1.0, 0.5)
