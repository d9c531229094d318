"""Compute the gradients of a batch in one process or, under torchrun, in several."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from submission.errors import UsageError
from submission.rankers.network import Network
from training.data.seeds import Stream, generator
from training.fitting.task import N, Task

WAIT = timedelta(days=30)  # for a process that validates; where one dies, torchrun ends the others


class Processes(Protocol):
    """The processes that train a network, seen from one of them."""

    number: int  # this one's; 0 validates and writes
    size: int  # how many there are

    def seed(self, seed: int, step: int) -> None:
        """Seed dropout for a step; a single process goes on drawing instead."""

    def backward(self, network: N, task: Task[N], rows: np.ndarray, micro: int) -> float:
        """The loss of a batch of examples, rows (B,), computed in micro batches; its gradients are added to the parameters'."""

    def barrier(self) -> None:
        """Wait at a barrier for the other processes."""


class Alone(Processes):
    """A single process."""

    number, size = 0, 1

    def seed(self, seed: int, step: int) -> None:
        pass

    def backward(self, network: N, task: Task[N], rows: np.ndarray, micro: int) -> float:
        total = 0.0
        for part in np.split(rows, range(micro, len(rows), micro)):
            loss = task.loss(network, part, rows)
            loss.backward()  # type: ignore[no-untyped-call]  # torch's own lack
            total += loss.item()
        return total

    def barrier(self) -> None:
        pass


ALONE = Alone()


class Together(Processes):
    """Several processes: each computes its share of every batch, DistributedDataParallel adds up their gradients.

    A batch has the examples that it has for one process; sums in another order and, where there is dropout, other masks are
    all that differs.
    """

    def __init__(self) -> None:
        """Take rank and size from the process group, which was joined."""
        self.number, self.size = distributed.get_rank(), distributed.get_world_size()
        self._module: DistributedDataParallel | None = None
        self._sum: distributed.Work | None = None  # the last one, kept: see `leave`

    def seed(self, seed: int, step: int) -> None:
        """A function of seed, step and process alone: nothing of it has to be saved."""
        torch.manual_seed(int(generator(seed, Stream.DROPOUT, step, self.number).integers(2**63)))

    def backward(self, network: N, task: Task[N], rows: np.ndarray, micro: int) -> float:
        if self._module is None:
            self._module = _parallel(_Loss(network, task))
        own = np.array_split(rows, self.size)[self.number]
        weight = self.size if len(own) else 0  # gradients are averaged, not added up
        own = own if len(own) else rows[:1]  # every process takes part in every batch
        parts, total = np.split(own, range(micro, len(own), micro)), 0.0
        for part in parts:
            with nullcontext() if part is parts[-1] else self._module.no_sync():
                loss = self._module(part, rows, weight)
                loss.backward()
            total += loss.item()
        found = torch.tensor(total, dtype=torch.float64)
        self._sum = distributed.all_reduce(found, async_op=True)
        self._sum.wait()
        return found.item() / self.size

    def barrier(self) -> None:
        distributed.barrier()

    def leave(self) -> None:
        """Leave the process group.

        Its destructor joins its threads while it holds the interpreter's lock. A thread that was the last to have a sum would
        wait for that lock, as a tensor is released with it, and both would wait for ever: so the sum is let go behind them.
        """
        self._module = None
        distributed.destroy_process_group()
        self._sum = None


class _Loss(nn.Module):
    """A part's share of the loss, as the module that DistributedDataParallel asks for."""

    def __init__(self, network: Network, task: Task[Any]) -> None:
        super().__init__()
        self.network, self._task = network, task

    def forward(self, part: np.ndarray, rows: np.ndarray, weight: int) -> Tensor:
        return weight * self._task.loss(self.network, part, rows)


def _parallel(module: nn.Module) -> DistributedDataParallel:
    sparse = any(isinstance(part, nn.Embedding) and part.sparse for part in module.modules())
    group = distributed.new_group(backend="gloo") if sparse else None  # NCCL adds up no sparse gradients
    return DistributedDataParallel(module, process_group=group, forward_sync_buffers=False)


@contextmanager
def processes(device: torch.device) -> Iterator[Processes]:
    """Join the processes that torchrun started, each with a GPU of its own; without torchrun, return this process alone.

    Raises:
        UsageError: more processes than GPUs.
    """
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        yield ALONE
        return
    if device.type == "cuda":
        own, there = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if own >= there:
            raise UsageError(f"torchrun --nproc-per-node: more processes than this machine has GPUs ({there}); give {there}")
        torch.cuda.set_device(own)
    distributed.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=WAIT)
    together = Together()
    try:
        yield together
    finally:
        together.leave()
