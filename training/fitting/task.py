"""Interface of training tasks: examples, loss and validation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from torch import Tensor

from submission.errors import TrainingError
from submission.models.network import Network

N = TypeVar("N", bound=Network)


class Task(ABC, Generic[N]):
    """Numbered examples with a loss, and separate validation data."""

    data: str  # origin, licence and labelling, for the card
    measured: ClassVar[str]  # what the metrics measure, for the card
    size: int  # examples per epoch
    number: int  # validation items
    decided_by: dict[str, Any]  # origin of the examples, for the provenance
    files: dict[str, str]  # hashes of the files that a run depends on

    @abstractmethod
    def loss(self, network: N, part: np.ndarray, rows: np.ndarray) -> Tensor:
        """Return the micro-batch's contribution to the batch loss.

        Args:
            network: the network.
            part: example rows computed together.
            rows: all example rows of the batch.
        """

    @abstractmethod
    def baselines(self) -> dict[str, dict[str, float]]:
        """Measure untrained baselines, by name."""

    @abstractmethod
    def validated(self, network: N, step: int) -> dict[str, float]:
        """Validate during training.

        Raises:
            TrainingError: the network is dead or diverged.
        """

    def final(self, network: N, step: int) -> dict[str, float]:
        """Validate the selected network on all validation data; by default the data that selected it."""
        return self.validated(network, step)


def diverged(step: int, what: str) -> TrainingError:
    """Return the error for non-finite scores or losses."""
    return TrainingError(f"step {step}: {what}; lower training.learning_rate in the recipe")


def dead(step: int) -> TrainingError:
    """Return the error for a network that scores everything alike."""
    return TrainingError(
        f"step {step}: all validation scores are equal; lower training.learning_rate or check the inputs "
        "(saturated layers, word vectors)"
    )
