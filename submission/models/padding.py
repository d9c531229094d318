"""Padding of token ids to rectangular arrays and tensors."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from submission.text.vocabulary import PADDING_ID

TokenIds = Sequence[int] | np.ndarray  # token ids of one text


def pad(texts: Sequence[TokenIds]) -> tuple[Tensor, Tensor]:
    """Pad texts to ids (B, L) int64 and mask (B, L) bool, where L is the maximum length, at least 1."""
    ids, mask = pad_arrays(texts, np.int64)
    return torch.from_numpy(ids), torch.from_numpy(mask)


def pad_arrays(texts: Sequence[TokenIds], dtype: type[np.integer]) -> tuple[np.ndarray, np.ndarray]:
    """Pad texts to ids (B, L) of a dtype and mask (B, L) bool."""
    lengths = np.array([len(text) for text in texts], dtype=int)
    mask = np.arange(lengths.max(initial=1)) < lengths[:, None]
    ids = np.full(mask.shape, PADDING_ID, dtype=dtype)
    ids[mask] = np.concatenate([np.empty(0, dtype=np.int32), *texts])
    return ids, mask
