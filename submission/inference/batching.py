"""Batching and padding of token ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from submission.text.token_ids import PADDING

Ids = Sequence[int] | np.ndarray  # token ids of one text


def pad(texts: Sequence[Ids]) -> tuple[Tensor, Tensor]:
    """Pad token ids to ids (B, L) int64 and mask (B, L) bool, with L the longest length, at least 1."""
    ids, mask = _padded(texts, np.int64)
    return torch.from_numpy(ids), torch.from_numpy(mask)


def _padded(texts: Sequence[Ids], dtype: type[np.integer]) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.array([len(text) for text in texts], dtype=int)
    mask = np.arange(lengths.max(initial=1)) < lengths[:, None]
    ids = np.full(mask.shape, PADDING, dtype=dtype)
    ids[mask] = np.concatenate([np.empty(0, dtype=np.int32), *texts])
    return ids, mask


@dataclass(frozen=True)
class Padded:
    """Texts as token ids, padded once so that batches are slices: ids (N, L) int32, lengths (N,)."""

    ids: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, texts: Sequence[Ids]) -> Padded:
        """Pad the token ids of texts."""
        ids, mask = _padded(texts, np.int32)
        return cls(torch.from_numpy(ids), torch.from_numpy(mask.sum(1)))

    def some(self, rows: np.ndarray) -> Padded:
        """Select rows, trimmed to the longest of them."""
        lengths = self.lengths[rows]
        max_length = max(1, int(lengths.max()))
        return Padded(self.ids[rows, :max_length].clone(), lengths)

    def take(self, rows: np.ndarray | Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return ids (B, L) int64 and mask (B, L) of rows on a device, trimmed to the longest of them."""
        rows = torch.as_tensor(rows)
        lengths = self.lengths[rows]
        max_length = max(1, int(lengths.max()))
        mask = torch.arange(max_length) < lengths[:, None]
        return self.ids.index_select(0, rows)[:, :max_length].long().to(device), mask.to(device)


@dataclass(frozen=True)
class PaddedPairs:
    """Pairs to score: pair i is row query[i] of the queries and row premise[i] of the premises, (N,) each."""

    queries: Padded
    premises: Padded
    query: np.ndarray
    premise: np.ndarray

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]], queries: Mapping[str, Ids], premises: Mapping[str, Ids]) -> PaddedPairs:
        """Build pairs from query and premise names and the token ids by name."""
        names_by_side = list(zip(*pairs, strict=True)) or [(), ()]
        rows = []
        for names, ids in zip(names_by_side, (queries, premises), strict=True):
            row_by_name = {name: row for row, name in enumerate(ids)}
            rows.append(np.array([row_by_name[name] for name in names], dtype=int))
        return cls(Padded.of(list(queries.values())), Padded.of(list(premises.values())), *rows)

    def lengths(self) -> np.ndarray:
        """Return the premise lengths (N,)."""
        lengths: np.ndarray = self.premises.lengths.numpy()[self.premise]
        return lengths

    def topics(self) -> list[np.ndarray]:
        """Return the pair numbers of each query."""
        order = np.argsort(self.query, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.query[order])) + 1) if len(order) else []


def batches(lengths: Sequence[int] | np.ndarray, size: int) -> list[np.ndarray]:
    """Group row numbers into batches of similar length; deterministic, so that a resumed run uses the same batches."""
    order = np.argsort(lengths, kind="stable")
    return [order[start : start + size] for start in range(0, len(order), size)]


def batches_of_positions(lengths: Sequence[int] | np.ndarray, most: int) -> list[np.ndarray]:
    """Group row numbers into batches of similar length, longest first, of at most `most` padded tokens or a single row."""
    order, rows_by_batch = np.argsort(-np.asarray(lengths), kind="stable"), []
    while len(order):
        size = max(1, most // max(1, int(lengths[order[0]])))
        rows_by_batch.append(order[:size])
        order = order[size:]
    return rows_by_batch
