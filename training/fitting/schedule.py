"""Schedule of a run: batches, learning rate and validation steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from training.data.seeds import Stream, generator
from training.fitting.recipe import Recipe


@dataclass(frozen=True)
class Schedule:
    """A pure function of recipe and example count; it has no state to save."""

    recipe: Recipe
    arguments: int

    @property
    def per_epoch(self) -> int:
        """Return the steps per epoch."""
        return -(-self.arguments // self.recipe.training.global_batch_size)

    @property
    def steps(self) -> int:
        """Return the total number of steps."""
        training = self.recipe.training
        max_steps = self.per_epoch * training.epochs
        return min(max_steps, training.steps or max_steps)

    def rows(self, step: int) -> np.ndarray:
        """Return the example rows (B,) of a step."""
        epoch, position = divmod(step, self.per_epoch)
        size = self.recipe.training.global_batch_size
        return _order(self.arguments, self.recipe.seed, epoch)[position * size : (position + 1) * size]

    def rate(self, step: int) -> float:
        """Return the factor of all learning rates at a step."""
        training = self.recipe.training
        if step < training.warm_up * self.steps:
            return (step + 1) / (training.warm_up * self.steps)
        return 1 - step / self.steps if training.decay else 1.0

    def validates(self, step: int) -> bool:
        """Return whether validation follows a step."""
        validations = self.recipe.training.validations
        validation_steps = {round(self.per_epoch * (index + 1) / validations) for index in range(validations)}
        return step % self.per_epoch + 1 in validation_steps or step + 1 == self.steps


@lru_cache(maxsize=1)
def _order(size: int, seed: int, epoch: int) -> np.ndarray:
    """Return the example order of an epoch."""
    return generator(seed, Stream.ORDER, epoch).permutation(size)
