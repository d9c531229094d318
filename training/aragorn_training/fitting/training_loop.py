"""Train a network: schedule, state from which a stopped run resumes, and loop over steps."""

import io
import json
import logging
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aragorn.errors import InputError, UsageError
from aragorn.models.network import Network
from aragorn.storage.atomic_files import replace_atomic
from aragorn_training.data.split import RandomStream, create_generator
from aragorn_training.fitting.distributed import SINGLE_PROCESS, ProcessGroup
from aragorn_training.fitting.recipe import Recipe
from aragorn_training.fitting.task import (
    CurveSpec,
    NetworkT,
    Task,
    build_divergence_error,
    plot_learning_curve,
)

VERSION = 1  # of networks trained with the same recipe and data
COMPUTES_WITH = ("aragorn.inference.checkpoint", "numpy", "torch")

log = logging.getLogger(__name__)

STATE_FILE = "state.pt"
LOG_FILE = "log.jsonl"
CURVE_FILE = "curve.png"


@dataclass(frozen=True)
class Schedule:
    """Batches, learning rates and validation steps, determined by recipe and examples."""

    recipe: Recipe
    n_examples: int

    @property
    def steps_per_epoch(self) -> int:
        """Number of optimiser steps per epoch; the last batch may be smaller."""
        return -(-self.n_examples // self.recipe.training.batch_size)

    @property
    def total_steps(self) -> int:
        """Number of optimiser steps of the run, limited by the recipe's `max_steps`."""
        max_steps = self.steps_per_epoch * self.recipe.training.epochs
        return min(max_steps, self.recipe.training.max_steps or max_steps)

    def batch(self, step: int) -> np.ndarray:
        """Return the example rows (B,) of a step, from 0; each epoch has another order."""
        epoch, position = divmod(step, self.steps_per_epoch)
        size = self.recipe.training.batch_size
        return _shuffle_epoch(self.n_examples, self.recipe.seed, epoch)[
            position * size : (position + 1) * size
        ]

    def get_learning_rate_factor(self, step: int) -> float:
        """Return the factor by which all learning rates are multiplied at a step."""
        training = self.recipe.training
        if step < training.warmup_fraction * self.total_steps:
            return (step + 1) / (training.warmup_fraction * self.total_steps)
        return 1 - step / self.total_steps if training.linear_decay else 1.0

    def is_validation_step(self, step: int) -> bool:
        """Return whether validation follows a step."""
        validations = self.recipe.training.validations_per_epoch
        validation_steps = {
            round(self.steps_per_epoch * (index + 1) / validations) for index in range(validations)
        }
        return step % self.steps_per_epoch + 1 in validation_steps or step + 1 == self.total_steps


@lru_cache(maxsize=1)
def _shuffle_epoch(size: int, seed: int, epoch: int) -> np.ndarray:
    return create_generator(seed, RandomStream.EPOCH_ORDER, epoch).permutation(size)


@dataclass
class TrainingState:
    """Progress of training, saved with the states of network, optimiser and generators."""

    fingerprint: str  # hash of everything the run depends on
    step: int = 0
    losses: list[float] = field(default_factory=list)  # one per step since the last validation
    log_rows: list[dict[str, float]] = field(default_factory=list)  # one row per validation

    def save(
        self, run_dir: Path, network: Network, optimiser: torch.optim.Optimizer, curve: CurveSpec
    ) -> None:
        """Write state, log and learning curve; raise OutputError if they cannot be written."""
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        content = {
            "state": asdict(self),
            "network": network.state_dict(),
            "optimiser": optimiser.state_dict(),
            "random": {"cpu": torch.get_rng_state(), "cuda": cuda},
        }
        buffer = io.BytesIO()
        torch.save(content, buffer)
        replace_atomic(run_dir / LOG_FILE, "".join(json.dumps(row) + "\n" for row in self.log_rows))
        replace_atomic(
            run_dir / CURVE_FILE, plot_learning_curve(network.get_name(), curve, self.log_rows)
        )
        replace_atomic(run_dir / STATE_FILE, buffer.getvalue())

    def load(self, run_dir: Path, overwrite: bool = False) -> dict[str, Any] | None:
        """Load the saved state for `restore`; None if there is none, or if `overwrite` and it
        cannot be resumed.

        Raises:
            InputError: If it is damaged.
            UsageError: If it was saved with another recipe, data or version.
        """
        path = run_dir / STATE_FILE
        if not path.exists():
            return None
        try:
            return self._load(path)
        except (InputError, UsageError) as error:
            if not overwrite:
                raise type(error)(f"{error}; pass --overwrite to start over") from None
            log.warning("%s; starting over", error)
            return None

    def _load(self, path: Path) -> dict[str, Any]:
        try:
            content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
            state = TrainingState(**content["state"])
            # KeyError if one is missing
            _ = content["network"], content["optimiser"], content["random"]
        except (
            OSError,
            RuntimeError,
            KeyError,
            TypeError,
            ValueError,
            EOFError,
            pickle.UnpicklingError,
        ) as error:
            raise InputError(f"{path}: damaged ({error})") from None
        if state.fingerprint != self.fingerprint:
            raise UsageError(f"{path}: saved with another recipe, other data or another version")
        return content

    def restore(
        self, content: dict[str, Any], network: Network, optimiser: torch.optim.Optimizer
    ) -> None:
        """Restore the result of `load`; draw no random number before the next step."""
        network.load_state_dict(content["network"])
        optimiser.load_state_dict(content["optimiser"])
        torch.set_rng_state(content["random"]["cpu"])
        if content["random"]["cuda"]:
            torch.cuda.set_rng_state_all(content["random"]["cuda"])
        self.__dict__.update(content["state"])
        log.info("Resuming at step %d", self.step)


def train(
    network: NetworkT,
    optimiser: torch.optim.Optimizer,
    task: Task[NetworkT],
    schedule: Schedule,
    state: TrainingState,
    steps: Iterable[int],
    processes: ProcessGroup = SINGLE_PROCESS,
) -> Iterator[dict[str, float]]:
    """Train a network for the remaining `steps`, updating `state`; yield the log row of each
    validation.

    The optimiser's parameter groups need `initial_lr`. Raise TrainingError if the loss is not
    finite or the network gives all inputs the same score.
    """
    network.train()
    for step in steps:
        for param_group in optimiser.param_groups:
            param_group["lr"] = param_group["initial_lr"] * schedule.get_learning_rate_factor(step)
        processes.seed_dropout(schedule.recipe.seed, step)
        micro_batch_size = schedule.recipe.training.micro_batch_size
        loss = take_step(
            network, optimiser, task, schedule.batch(step), micro_batch_size, processes
        )
        if not np.isfinite(loss):
            raise build_divergence_error(step + 1, f"the loss is {loss}")
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
    batch: np.ndarray,
    micro_batch_size: int,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> float:
    """Take one optimiser step over a batch of example rows (B,); return the loss."""
    loss = processes.backward(network, task, batch, micro_batch_size)
    optimiser.step()
    optimiser.zero_grad()
    return loss
