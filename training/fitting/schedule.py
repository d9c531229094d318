"""Schedule of a run: batches, learning rate and validation steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from training.data.seeds import RandomStream, random_generator
from training.fitting.recipe import Recipe


@dataclass(frozen=True)
class Schedule:
    """A pure function of recipe and example count; it has no state to save."""

    recipe: Recipe
    example_count: int

    @property
    def steps_per_epoch(self) -> int:
        """Return the steps per epoch."""
        return -(-self.example_count // self.recipe.training.batch_size)

    @property
    def total_steps(self) -> int:
        """Return the total number of steps."""
        training = self.recipe.training
        max_steps = self.steps_per_epoch * training.epochs
        return min(max_steps, training.max_steps or max_steps)

    def batch(self, step: int) -> np.ndarray:
        """Return the example rows (B,) of a step."""
        epoch, position = divmod(step, self.steps_per_epoch)
        size = self.recipe.training.batch_size
        return _epoch_order(self.example_count, self.recipe.seed, epoch)[position * size : (position + 1) * size]

    def learning_rate_factor(self, step: int) -> float:
        """Return the factor of all learning rates at a step."""
        training = self.recipe.training
        if step < training.warmup_fraction * self.total_steps:
            return (step + 1) / (training.warmup_fraction * self.total_steps)
        return 1 - step / self.total_steps if training.linear_decay else 1.0

    def is_validation_step(self, step: int) -> bool:
        """Return whether validation follows a step."""
        validations = self.recipe.training.validations_per_epoch
        validation_steps = {round(self.steps_per_epoch * (index + 1) / validations) for index in range(validations)}
        return step % self.steps_per_epoch + 1 in validation_steps or step + 1 == self.total_steps


@lru_cache(maxsize=1)
def _epoch_order(size: int, seed: int, epoch: int) -> np.ndarray:
    """Return the example order of an epoch."""
    return random_generator(seed, RandomStream.EPOCH_ORDER, epoch).permutation(size)
