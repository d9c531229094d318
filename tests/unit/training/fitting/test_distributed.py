"""Tests of distributed training."""

import numpy as np
import pytest
import torch
from torch import Tensor, distributed, nn

from aragorn.errors import UsageError
from aragorn.models.network import pad
from aragorn.models.rankers import list_rankers
from aragorn_training.fitting.distributed import (
    SINGLE_PROCESS,
    DistributedProcesses,
    join_process_group,
)
from aragorn_training.fitting.task import Task
from aragorn_training.tasks.pairs import pairwise_loss
from tests.contract.test_rankers import build, generate_texts


class PairTask(Task):
    """A task with a pairwise loss over eight triples of random texts."""

    queries = generate_texts(1, 8, 10)
    positives = generate_texts(2, 8, 40)
    negatives = generate_texts(3, 8, 40)

    def compute_loss(self, ranker, micro_batch, batch):
        texts = (self.queries, self.positives, self.negatives)
        inputs = (pad([part[row] for row in micro_batch]) for part in texts)
        return pairwise_loss(ranker, *inputs, margin=1.0, l1_weight=0.0) * (
            len(micro_batch) / len(batch)
        )

    measure_baselines = validate = validate_final = lambda *_: {}


@pytest.fixture
def group(tmp_path):
    """Join a process group of one process."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()


def build_for_training(name):
    """Build a network in training mode, without dropout and with sparse embeddings."""
    ranker = build(name).train()
    for module in ranker.modules():
        if isinstance(module, nn.Embedding):
            module.sparse = ranker.token_unit == "words"
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return ranker


def get_gradients(ranker):
    gradients = {name: value.grad for name, value in ranker.named_parameters()}
    return {
        name: value.to_dense().clone() for name, value in gradients.items() if value is not None
    }


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(
    ("name", "batch_size"), [*((name, 8) for name in list_rankers()), ("knrm", 5), ("knrm", 1)]
)
def test_gradients_of_ranks_average_to_those_of_the_batch(name, batch_size):
    rows = np.arange(batch_size)
    ranker = build_for_training(name)
    loss = SINGLE_PROCESS.backward(ranker, PairTask(), rows, 3)
    expected = get_gradients(ranker)
    losses = []
    total = dict[str, Tensor]()
    for rank in range(3):
        ranker.zero_grad()
        processes = DistributedProcesses()
        processes.rank = rank
        processes.world_size = 3
        losses.append(processes.backward(ranker, PairTask(), rows, 2))
        for parameter, value in get_gradients(ranker).items():
            # the average of three processes
            total[parameter] = total.get(parameter, torch.zeros_like(value)) + value / 3
    assert sum(losses) == pytest.approx(loss, abs=1e-6)
    assert set(total) == {
        parameter for parameter, value in ranker.named_parameters() if value.requires_grad
    }
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("group")
def test_dropout_depends_on_seed_step_and_rank():
    def sample(seed, step, rank):
        torch.rand(step + 1)  # advance the random state
        processes = DistributedProcesses()
        processes.rank = rank
        processes.seed_dropout(seed, step)
        return tuple(torch.rand(3).tolist())

    settings = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    samples = [sample(*values) for values in (*settings, *settings)]
    assert samples[:4] == samples[4:]
    assert len(set(samples)) == 4


def test_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    context = join_process_group("cuda")
    with (
        pytest.raises(UsageError, match=r"exceeds the 2 GPUs of this machine; use at most 2"),
        context,
    ):
        pass
