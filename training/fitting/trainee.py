"""A network to train, with its optimiser, its text processing and its sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

from submission.errors import UsageError
from submission.scoring.pretrained import Pretrained
from submission.scoring.stored import Kind, N, R
from training.fitting.adam import LazyAdam
from training.fitting.settings import Optimisation, PretrainedEncoder


@dataclass(frozen=True)
class Trainee(Generic[N, R]):
    """A network to train, and the reader that turns texts into its input."""

    kind: Kind[N, R]  # of its checkpoint
    network: N
    reader: R
    pretrained: Pretrained | None  # of BERT networks
    source: dict[str, Any]  # for the provenance: vectors or encoder

    def trains(self, training: Optimisation) -> bool:
        """Tell whether any parameter is trained. Raises UsageError: the recipe's epochs say otherwise."""
        trained = any(value.requires_grad for value in self.network.parameters())
        if trained != (training.epochs > 0):
            expected = "1 or more, or all blocks frozen and no head" if trained else "0: all that the network has is frozen"
            raise UsageError(f"training.epochs is {training.epochs}; expected {expected}")
        return trained

    def optimiser(self, training: Optimisation, encoder: PretrainedEncoder) -> LazyAdam:
        """Create Adam, lazy on word tables; a pretrained encoder has a learning rate of its own."""
        trained = {name: value for name, value in self.network.named_parameters() if value.requires_grad}
        pretrained = [value for name, value in trained.items() if name.startswith("encoder.")]
        head = [value for name, value in trained.items() if not name.startswith("encoder.")]
        rates = [(head, training.learning_rate), (pretrained, encoder.learning_rate)]
        return LazyAdam([{"params": part, "lr": rate, "initial_lr": rate} for part, rate in rates if part])
