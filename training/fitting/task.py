"""The interface of tasks: examples with a loss, and a validation; all that differs between two kinds of training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from torch import Tensor

from submission.errors import TrainingError
from submission.rankers.network import Network

N = TypeVar("N", bound=Network)


class Task(ABC, Generic[N]):
    """Numbered examples with a loss, and a validation apart from them."""

    data: str  # whose, under which licence, and how labelled: for the checkpoint's card
    measured: ClassVar[str]  # what its measures are of: for the card too
    size: int  # examples of an epoch
    number: int  # how many it validates on
    decided_by: dict[str, Any]  # what the examples come from: "trained on" in the provenance
    files: dict[str, str]  # hashes that a run depends on beside that

    @abstractmethod
    def loss(self, network: N, part: np.ndarray, rows: np.ndarray) -> Tensor:
        """Compute the share of some examples in the loss of a batch.

        Args:
            network: what learns.
            part: numbers of examples, computed at a time.
            rows: of all examples of the batch that they are a part of.
        """

    @abstractmethod
    def baselines(self) -> dict[str, dict[str, float]]:
        """Measures of what is untrained, by its name: printed beside a network."""

    @abstractmethod
    def validated(self, network: N, step: int) -> dict[str, float]:
        """Measures while training, after so many steps. Raises TrainingError: the network is dead or diverged."""

    @abstractmethod
    def final(self, network: N, step: int) -> dict[str, float]:
        """Measures of the network that is kept, over all that it validates on. Raises as `validated` does."""


def diverged(step: int, what: str) -> TrainingError:
    """Create the error for scores or losses that are not finite."""
    return TrainingError(f"step {step}: {what}; lower training.learning_rate in the recipe")


def dead(step: int) -> TrainingError:
    """Create the error for a network that gives everything the same score."""
    return TrainingError(
        f"step {step}: all validation scores are tied, the network is dead; lower training.learning_rate "
        "or look at its inputs (saturated layers, vectors)"
    )
