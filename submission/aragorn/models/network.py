"""Define the base class of networks in checkpoints and of their tokenisers; pad token ids."""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn

from aragorn.text.vocabulary import PADDING_ID

TokenIds = Sequence[int] | np.ndarray  # token ids of one text


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


def pad(texts: Sequence[TokenIds], min_length: int = 1) -> tuple[Tensor, Tensor]:
    """Pad texts to ids (B, L) int64 and mask (B, L) bool; L is their maximum and `min_length`."""
    ids, mask = pad_arrays(texts, np.int64, min_length)
    return torch.from_numpy(ids), torch.from_numpy(mask)


def pad_arrays(
    texts: Sequence[TokenIds], dtype: type[np.integer], min_length: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Pad texts as `pad` does, to arrays, with ids of type `dtype`."""
    lengths = np.array([len(text) for text in texts], dtype=int)
    mask = np.arange(lengths.max(initial=min_length)) < lengths[:, None]
    ids = np.full(mask.shape, PADDING_ID, dtype=dtype)
    ids[mask] = np.concatenate([np.empty(0, dtype=np.int32), *texts])
    return ids, mask


@dataclass(frozen=True)
class PaddedTexts:
    """Padded token ids of texts; a batch is a selection of their rows."""

    ids: Tensor  # (N, L) int32
    lengths: Tensor  # (N,) lengths without padding

    @classmethod
    def from_ids(cls, texts: Sequence[TokenIds]) -> Self:
        ids, mask = pad_arrays(texts, np.int32)
        return cls(torch.from_numpy(ids), torch.from_numpy(mask.sum(1)))

    def select(self, rows: np.ndarray | Tensor) -> Self:
        """Return a copy of the texts in `rows`, trimmed to the longest of them."""
        rows = torch.as_tensor(rows)
        lengths = self.lengths[rows]
        return type(self)(
            self.ids.index_select(0, rows)[:, : max(1, int(lengths.max()))].clone(), lengths
        )

    def batch(self, rows: np.ndarray | Tensor, device: str) -> tuple[Tensor, Tensor]:
        """Return ids (B, L) int64 and mask (B, L) of `rows` on a device, trimmed."""
        texts = self.select(rows)
        mask = torch.arange(texts.ids.shape[1]) < texts.lengths[:, None]
        return texts.ids.long().to(device), mask.to(device)
