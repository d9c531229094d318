"""Train a network with Adam and validate several times per epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from training.fitting.distributed import SINGLE_PROCESS, ProcessGroup
from training.fitting.schedule import Schedule
from training.fitting.task import NetworkT, Task, divergence_error
from training.fitting.training_state import TrainingState


def train(
    network: NetworkT,
    optimiser: torch.optim.Optimizer,
    task: Task[NetworkT],
    schedule: Schedule,
    state: TrainingState,
    steps: Iterable[int],
    processes: ProcessGroup = SINGLE_PROCESS,
) -> Iterator[dict[str, float]]:
    """Train a network and yield after each validation.

    Args:
        network: on the task's device.
        optimiser: parameter groups need `initial_lr`.
        task: examples and loss.
        schedule: batches, learning rate and validation steps.
        state: updated in place.
        steps: remaining steps.
        processes: rank 0 validates.

    Yields:
        The log row of each validation.

    Raises:
        TrainingError: the loss is not finite, or the network scores everything alike.
    """
    network.train()
    for step in steps:
        for param_group in optimiser.param_groups:
            param_group["lr"] = param_group["initial_lr"] * schedule.learning_rate_factor(step)
        processes.seed_dropout(schedule.recipe.seed, step)
        micro_batch_size = schedule.recipe.training.micro_batch_size
        loss = take_step(network, optimiser, task, schedule.batch(step), micro_batch_size, processes)
        if not np.isfinite(loss):
            raise divergence_error(step + 1, f"the loss is {loss}")
        state.step = step + 1
        state.losses.append(loss)
        if schedule.is_validation_step(step) and processes.rank == 0:
            metrics = task.validate(network, state.step)
            mean_loss = round(float(np.mean(state.losses)), 6)
            epoch = round(state.step / schedule.steps_per_epoch, 3)
            log_row = {"step": state.step, "epoch": epoch, "loss": mean_loss, **metrics}
            state.log_rows.append(log_row)
            state.losses = []
            yield log_row


def take_step(
    network: NetworkT,
    optimiser: torch.optim.Optimizer,
    task: Task[NetworkT],
    rows: np.ndarray,
    micro_batch_size: int,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> float:
    """Take one optimiser step over a batch (B,) in micro-batches; return the loss."""
    loss = processes.backward(network, task, rows, micro_batch_size)
    optimiser.step()
    optimiser.zero_grad()
    return loss
