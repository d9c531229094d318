"""The one training loop: Adam by a task's loss, and the task's validation so many times an epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from training.fitting.processes import ALONE, Processes
from training.fitting.schedule import Schedule
from training.fitting.state import State
from training.fitting.task import N, Task, diverged


def train(
    network: N,
    optimiser: torch.optim.Optimizer,
    task: Task[N],
    schedule: Schedule,
    state: State,
    steps: Iterable[int],
    processes: Processes = ALONE,
) -> Iterator[dict[str, float]]:
    """Train a network, from one validation to the next.

    Args:
        network: what learns, on the device of the task.
        optimiser: of its parameters, with `initial_lr` in its groups.
        task: what it learns from.
        schedule: which examples each step reads, and after which it validates.
        state: where the run is; brought on with each step.
        steps: those that are left.
        processes: those that train it, of which the first validates.

    Yields:
        the row of each validation, the last of the state's.

    Raises:
        TrainingError: a non-finite loss, or a network that gives everything the same score.
    """
    network.train()
    for step in steps:
        for group in optimiser.param_groups:
            group["lr"] = group["initial_lr"] * schedule.rate(step)
        processes.seed(schedule.recipe.seed, step)
        micro = schedule.recipe.training.micro_batch_size
        loss = take_step(network, optimiser, task, schedule.rows(step), micro, processes)
        if not np.isfinite(loss):
            raise diverged(step + 1, f"the loss is {loss}")
        state.step = step + 1
        state.losses.append(loss)
        if schedule.validates(step) and processes.number == 0:
            values = task.validated(network, state.step)
            mean = round(float(np.mean(state.losses)), 6)
            row = {"step": state.step, "epoch": round(state.step / schedule.per_epoch, 3), "loss": mean, **values}
            state.rows.append(row)
            state.losses = []
            yield row


def take_step(
    network: N,
    optimiser: torch.optim.Optimizer,
    task: Task[N],
    rows: np.ndarray,
    micro: int,
    processes: Processes = ALONE,
) -> float:
    """Take one optimiser step over a global batch of examples, rows (B,), in micro batches; return the batch's loss."""
    loss = processes.backward(network, task, rows, micro)
    optimiser.step()
    optimiser.zero_grad()
    return loss
