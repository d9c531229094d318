"""Base class of all networks with checkpoints."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn


class Network(nn.Module):
    """A network built from its Config alone, so that config.json suffices to rebuild it.

    Each subclass has its own file, whose name is the network's name.
    """

    Config: ClassVar[type[Any]]
    half_precision_prefixes: ClassVar[tuple[str, ...]] = ("embedding.",)  # prefixes of tensors stored in float16

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    @classmethod
    def get_name(cls) -> str:
        """Return the network's name, that of its file."""
        return cls.__module__.rpartition(".")[2]

    def get_vocabulary_size(self) -> int:
        """Return the number of embedded ids."""
        return int(self.config.vocabulary)

    def get_omitted_tensors(self) -> set[str]:
        """Return the names of tensors that checkpoints omit, because the pretrained encoder's folder holds them."""
        return set()

    def set_encoder_precision(self, precision: torch.dtype | None) -> None:
        """Run a pretrained encoder in half precision, with its current weights rounded, or in full precision (None).

        Not during training. No effect on networks without such an encoder.
        """
