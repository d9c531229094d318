"""A network to train with its text reader and provenance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

from submission.errors import UsageError
from submission.inference.checkpoint_io import CheckpointFormat, NetworkT, TokeniserT
from submission.inference.pretrained import PretrainedEncoder
from training.fitting.hyperparameters import EncoderSettings, TrainingSettings
from training.fitting.lazy_adam import LazyAdam


@dataclass(frozen=True)
class TrainableNetwork(Generic[NetworkT, TokeniserT]):
    """A network to train, and the reader that converts texts to its input."""

    checkpoint_format: CheckpointFormat[NetworkT, TokeniserT]  # format of its checkpoint
    network: NetworkT
    reader: TokeniserT
    pretrained: PretrainedEncoder | None  # BERT networks only
    provenance: dict[str, Any]  # vectors or encoder

    def has_trainable_parameters(self, training: TrainingSettings) -> bool:
        """Return whether any parameter is trainable. Raises UsageError: the recipe's epochs contradict it."""
        trainable = any(parameter.requires_grad for parameter in self.network.parameters())
        if trainable and not training.epochs:
            raise UsageError(
                "training.epochs is 0 but the network has trainable parameters; set it to 1 or more, or freeze all layers"
            )
        if training.epochs and not trainable:
            raise UsageError(f"training.epochs is {training.epochs} but all parameters are frozen; set it to 0")
        return trainable

    def build_optimiser(self, training: TrainingSettings, encoder: EncoderSettings) -> LazyAdam:
        """Create the optimiser; the pretrained encoder has its own learning rate."""
        trainable = {name: parameter for name, parameter in self.network.named_parameters() if parameter.requires_grad}
        pretrained = [parameter for name, parameter in trainable.items() if name.startswith("encoder.")]
        head = [parameter for name, parameter in trainable.items() if not name.startswith("encoder.")]
        groups = [(head, training.learning_rate), (pretrained, encoder.learning_rate)]
        return LazyAdam([{"params": parameters, "lr": rate, "initial_lr": rate} for parameters, rate in groups if parameters])
