"""The schedule of a training run: the examples and the learning rate of each step, and the steps that validate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from training.data.seeds import Stream, generator
from training.fitting.recipe import Recipe


@dataclass(frozen=True)
class Schedule:
    """A function of recipe and number of arguments alone: there is nothing to save."""

    recipe: Recipe
    arguments: int

    @property
    def per_epoch(self) -> int:
        """The number of steps of an epoch."""
        return -(-self.arguments // self.recipe.training.global_batch_size)

    @property
    def steps(self) -> int:
        """The number of steps of the run."""
        training = self.recipe.training
        most = self.per_epoch * training.epochs
        return min(most, training.steps or most)

    def rows(self, step: int) -> np.ndarray:
        """The arguments (B,) of a step, counted from 0."""
        epoch, position = divmod(step, self.per_epoch)
        size = self.recipe.training.global_batch_size
        return _order(self.arguments, self.recipe.seed, epoch)[position * size : (position + 1) * size]

    def rate(self, step: int) -> float:
        """The share of the learning rates at a step."""
        training = self.recipe.training
        if step < training.warm_up * self.steps:
            return (step + 1) / (training.warm_up * self.steps)
        return 1 - step / self.steps if training.decay else 1.0

    def validates(self, step: int) -> bool:
        """Tell whether to validate after a step."""
        number = self.recipe.training.validations
        checks = {round(self.per_epoch * (part + 1) / number) for part in range(number)}
        return step % self.per_epoch + 1 in checks or step + 1 == self.steps


@lru_cache(maxsize=1)
def _order(size: int, seed: int, epoch: int) -> np.ndarray:
    """The order of the arguments in an epoch."""
    return generator(seed, Stream.ORDER, epoch).permutation(size)
