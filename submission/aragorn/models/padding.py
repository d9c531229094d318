"""Pad token ids to rectangular arrays and tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from aragorn.text.vocabulary import PADDING_ID

TokenIds = Sequence[int] | np.ndarray  # token ids of one text


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
