"""The base class of all networks that a checkpoint can hold."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn


class Network(nn.Module):
    """A network that is built from its Config alone, so that a checkpoint's config.json is all it takes to build it again.

    A subclass lives in a file of its own whose name is the network's name.
    """

    Config: ClassVar[type[Any]]
    stored_in_half: ClassVar[tuple[str, ...]] = ("embedding.",)  # tensors that a checkpoint keeps in float16

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    @classmethod
    def name(cls) -> str:
        """The name of the file that the class is in."""
        return cls.__module__.rpartition(".")[2]

    def terms(self) -> int:
        """Return the number of ids that have a vector."""
        return int(self.config.vocabulary)

    def not_stored(self) -> set[str]:
        """The tensors that a checkpoint leaves out, because the pretrained encoder's folder has them."""
        return set()

    def use_precision(self, precision: torch.dtype | None) -> None:
        """Let a pretrained encoder compute in half precision, its weights rounded as they are now, or in full (None).

        Not while it learns. Other networks have no such part.
        """
