"""Base class of the networks with checkpoints, and the interface of their tokenisers."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import torch
from torch import nn


class StoredTokeniser(Protocol):
    """A tokeniser that a checkpoint stores."""

    file: ClassVar[str]  # file name in a checkpoint

    def matches_vocabulary(self, size: int) -> bool:
        """Return whether its ids fit a network with `size` embedding rows."""

    def to_bytes(self) -> bytes:
        """Return the content of its file."""


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
