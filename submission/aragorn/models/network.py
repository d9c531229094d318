"""Define the base class of networks that are stored in checkpoints, and the interface of their
tokenisers."""

from contextvars import ContextVar
from typing import Any, ClassVar, Protocol

import torch
from torch import nn


class StoredTokeniser(Protocol):
    """Interface of tokenisers that are stored in checkpoints."""

    file: ClassVar[str]  # name of the tokeniser's file in a checkpoint

    def fits_embedding(self, row_count: int) -> bool:
        """Return whether an embedding table with `row_count` rows fits the vocabulary."""

    def to_bytes(self) -> bytes:
        """Return the content of the tokeniser's file."""


# Whether pretrained encoders run in full precision in this thread, whatever their precision is.
is_full_precision: ContextVar[bool] = ContextVar("is_full_precision", default=False)


class Network(nn.Module):
    """A network built from its Config alone, so that config.json suffices to rebuild it.

    Each subclass has its own module, whose name is the network's name.
    """

    Config: ClassVar[type[Any]]
    version: ClassVar[int]  # raised when outputs of the same weights change
    # prefixes of tensors stored in float16
    half_precision_prefixes: ClassVar[tuple[str, ...]] = ("embedding.",)

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    @classmethod
    def get_name(cls) -> str:
        return cls.__module__.rpartition(".")[2]

    def get_vocabulary_size(self) -> int:
        """Return the number of rows of the token embedding table."""
        return int(self.config.vocabulary)

    def get_frozen_tensors(self) -> set[str]:
        """Return the names of tensors that training leaves unchanged."""
        return set()

    def set_encoder_precision(self, precision: torch.dtype | None) -> None:
        """Set the inference precision of a pretrained encoder, if any; None: full precision.

        Half precision rounds a copy of the current weights.
        """
