"""Compute the gradients of a batch in one process or, under torchrun, in several."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from aragorn.errors import UsageError
from aragorn.models.network import Network
from aragorn_training.data.split import RandomStream, create_generator
from aragorn_training.fitting.task import NetworkT, Task

# other ranks wait while rank 0 validates; torchrun ends them if a rank dies
TIMEOUT = timedelta(days=30)


class ProcessGroup:
    """A single training process; base class of `DistributedProcesses`."""

    # rank 0 validates and writes; world size is the number of processes
    rank = 0
    world_size = 1

    def seed_dropout(self, seed: int, step: int) -> None:
        """Seed dropout for a step; a single process does not reseed."""

    def backward(
        self, network: NetworkT, task: Task[NetworkT], batch: np.ndarray, micro_batch_size: int
    ) -> float:
        """Accumulate the gradients of a batch (B,) in micro-batches; return its loss."""
        total = 0.0
        for micro_batch in np.split(batch, range(micro_batch_size, len(batch), micro_batch_size)):
            loss = task.compute_loss(network, micro_batch, batch)
            loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch
            total += loss.item()
        return total

    def barrier(self) -> None:
        """Wait until all processes have called this method; a single process does not wait."""


SINGLE_PROCESS = ProcessGroup()


class DistributedProcesses(ProcessGroup):
    """Several training processes, synchronised by DistributedDataParallel.

    Each computes a share of every batch. Results differ from those of one process only in summation
    order and dropout masks.
    """

    def __init__(self) -> None:
        self.rank = distributed.get_rank()
        self.world_size = distributed.get_world_size()
        self._ddp: DistributedDataParallel | None = None
        self._last_reduce: distributed.Work | None = None  # kept alive: see `close`

    def seed_dropout(self, seed: int, step: int) -> None:
        """Seed dropout from seed, step and rank, so that no random state needs to be saved."""
        torch.manual_seed(
            int(create_generator(seed, RandomStream.DROPOUT, step, self.rank).integers(2**63))
        )

    def backward(
        self, network: NetworkT, task: Task[NetworkT], batch: np.ndarray, micro_batch_size: int
    ) -> float:
        if self._ddp is None:
            self._ddp = _wrap_ddp(_LossModule(network, task))
        local_batch = np.array_split(batch, self.world_size)[self.rank]
        scale = self.world_size if len(local_batch) else 0  # DDP averages gradients
        # every rank must take part in every batch
        local_batch = local_batch if len(local_batch) else batch[:1]
        micro_batches = np.split(
            local_batch, range(micro_batch_size, len(local_batch), micro_batch_size)
        )
        local_loss = 0.0
        for micro_batch in micro_batches:
            with nullcontext() if micro_batch is micro_batches[-1] else self._ddp.no_sync():
                loss = self._ddp(micro_batch, batch, scale)
                loss.backward()
            local_loss += loss.item()
        total = torch.tensor(local_loss, dtype=torch.float64)
        self._last_reduce = distributed.all_reduce(total, async_op=True)
        self._last_reduce.wait()
        return total.item() / self.world_size

    def barrier(self) -> None:
        distributed.barrier()

    def close(self) -> None:
        """Leave the process group.

        The last reduction is released after the group. The group's destructor holds the GIL while
        it joins its threads; if a thread then released the reduction's tensor, it would wait for
        the GIL forever.
        """
        self._ddp = None
        distributed.destroy_process_group()
        self._last_reduce = None


class _LossModule(nn.Module):
    """A task's loss as a module for DistributedDataParallel."""

    def __init__(self, network: Network, task: Task[Any]) -> None:
        super().__init__()
        self.network = network
        self._task = task

    def forward(self, micro_batch: np.ndarray, batch: np.ndarray, scale: int) -> Tensor:
        return scale * self._task.compute_loss(self.network, micro_batch, batch)


def _wrap_ddp(module: nn.Module) -> DistributedDataParallel:
    has_sparse_gradients = any(
        isinstance(layer, nn.Embedding) and layer.sparse for layer in module.modules()
    )
    # NCCL does not support sparse gradients
    group = distributed.new_group(backend="gloo") if has_sparse_gradients else None
    return DistributedDataParallel(module, process_group=group, forward_sync_buffers=False)


@contextmanager
def join_process_group(device: str) -> Iterator[ProcessGroup]:
    """Join torchrun's process group with one GPU per process, or yield a single process; raise
    UsageError if there are more processes than GPUs."""
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        yield SINGLE_PROCESS
        return
    if device == "cuda":
        local_rank = int(os.environ["LOCAL_RANK"])
        n_gpus = torch.cuda.device_count()
        if local_rank >= n_gpus:
            raise UsageError(
                f"torchrun --nproc-per-node exceeds the {n_gpus} GPUs of this machine; use at "
                f"most {n_gpus}"
            )
        torch.cuda.set_device(local_rank)
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo", timeout=TIMEOUT
    )
    group = DistributedProcesses()
    try:
        yield group
    finally:
        group.close()
