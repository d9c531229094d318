"""Interface of training tasks: examples, loss and validation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from torch import Tensor

from submission.errors import TrainingError
from submission.models.network import Network

NetworkT = TypeVar("NetworkT", bound=Network)


class Task(ABC, Generic[NetworkT]):
    """Numbered examples with a loss, and separate validation data."""

    data_description: str  # origin, licence and labelling, for the card
    metrics_description: ClassVar[str]  # what the metrics measure, for the card
    train_size: int  # examples per epoch
    validation_size: int  # validation items
    training_data: dict[str, Any]  # origin of the examples, for the provenance
    file_hashes: dict[str, str]  # hashes of the files that a run depends on

    @abstractmethod
    def loss(self, network: NetworkT, micro_batch: np.ndarray, batch: np.ndarray) -> Tensor:
        """Return the micro-batch's contribution to the batch loss.

        Args:
            network: the network.
            micro_batch: example rows computed together.
            batch: all example rows of the batch.
        """

    @abstractmethod
    def measure_baselines(self) -> dict[str, dict[str, float]]:
        """Measure untrained baselines, by name."""

    @abstractmethod
    def validate(self, network: NetworkT, step: int) -> dict[str, float]:
        """Validate during training.

        Raises:
            TrainingError: the network is dead or diverged.
        """

    def validate_final(self, network: NetworkT, step: int) -> dict[str, float]:
        """Validate the selected network on all validation data; by default the data that selected it."""
        return self.validate(network, step)


def divergence_error(step: int, cause: str) -> TrainingError:
    """Return the error for non-finite scores or losses."""
    return TrainingError(f"step {step}: {cause}; lower training.learning_rate in the recipe")


def dead_network_error(step: int) -> TrainingError:
    """Return the error for a network that scores everything alike."""
    return TrainingError(
        f"step {step}: all validation scores are equal; lower training.learning_rate or check the inputs "
        "(saturated layers, word vectors)"
    )
