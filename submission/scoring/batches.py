"""Ids of texts → tensors and masks, in batches; padding happens here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from submission.text.ids import PADDING

Ids = Sequence[int] | np.ndarray  # of one text


def pad(texts: Sequence[Ids]) -> tuple[Tensor, Tensor]:
    """Ids of texts to a pair (ids, mask): ids (B, L) int64 padded with 0, mask (B, L) bool, L the longest but at least 1."""
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
    """Texts as ids, padded once to one length, so that batches of them are cut out: ids (N, L) int32, lengths (N,)."""

    ids: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, texts: Sequence[Ids]) -> Padded:
        """Pad the ids of texts."""
        ids, mask = _padded(texts, np.int32)
        return cls(torch.from_numpy(ids), torch.from_numpy(mask.sum(1)))

    def some(self, rows: np.ndarray) -> Padded:
        """Return some rows, cut to the longest of them."""
        lengths = self.lengths[rows]
        longest = max(1, int(lengths.max()))
        return Padded(self.ids[rows, :longest].clone(), lengths)

    def take(self, rows: np.ndarray | Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        """Ids (B, L) int64 and mask (B, L) of some rows, cut to the longest of them."""
        rows = torch.as_tensor(rows)
        lengths = self.lengths[rows]
        longest = max(1, int(lengths.max()))
        mask = torch.arange(longest) < lengths[:, None]
        return self.ids.index_select(0, rows)[:, :longest].long().to(device), mask.to(device)


@dataclass(frozen=True)
class PaddedPairs:
    """Pairs to score: pair i has the query in row query[i] and the premise in row premise[i], (N,) both."""

    queries: Padded
    premises: Padded
    query: np.ndarray
    premise: np.ndarray

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]], queries: Mapping[str, Ids], premises: Mapping[str, Ids]) -> PaddedPairs:
        """Create pairs from names of queries and premises, and the ids behind these names."""
        sides = list(zip(*pairs, strict=True)) or [(), ()]
        rows = []
        for names, ids in zip(sides, (queries, premises), strict=True):
            numbers = {name: number for number, name in enumerate(ids)}
            rows.append(np.array([numbers[name] for name in names], dtype=int))
        return cls(Padded.of(list(queries.values())), Padded.of(list(premises.values())), *rows)

    def lengths(self) -> np.ndarray:
        """The premises' lengths (N,)."""
        lengths: np.ndarray = self.premises.lengths.numpy()[self.premise]
        return lengths

    def topics(self) -> list[np.ndarray]:
        """The numbers of each query's pairs."""
        order = np.argsort(self.query, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.query[order])) + 1) if len(order) else []


def batches(lengths: Sequence[int] | np.ndarray, size: int) -> list[np.ndarray]:
    """Row numbers in batches of similar length, a function of the lengths alone: a resumed run sees the same ones."""
    order = np.argsort(lengths, kind="stable")
    return [order[start : start + size] for start in range(0, len(order), size)]


def batches_of_positions(lengths: Sequence[int] | np.ndarray, most: int) -> list[np.ndarray]:
    """Row numbers in batches of similar length, the longest first, each of at most so many positions or of a single row."""
    order, found = np.argsort(-np.asarray(lengths), kind="stable"), []
    while len(order):
        size = max(1, most // max(1, int(lengths[order[0]])))
        found.append(order[:size])
        order = order[size:]
    return found
