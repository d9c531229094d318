"""Batches of tokenised texts and pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from submission.models.padding import TokenIds, pad_arrays


@dataclass(frozen=True)
class PaddedTexts:
    """Token ids (N, L) int32 of texts, padded once so that a batch is a selection of rows, and the texts' lengths (N,)."""

    ids: Tensor
    lengths: Tensor

    @classmethod
    def from_ids(cls, texts: Sequence[TokenIds]) -> PaddedTexts:
        """Pad the token ids of each text."""
        ids, mask = pad_arrays(texts, np.int32)
        return cls(torch.from_numpy(ids), torch.from_numpy(mask.sum(1)))

    def select(self, rows: np.ndarray | Tensor) -> PaddedTexts:
        """Return a copy of some rows, trimmed to the longest text among them."""
        rows = torch.as_tensor(rows)
        lengths = self.lengths[rows]
        return PaddedTexts(self.ids.index_select(0, rows)[:, : max(1, int(lengths.max()))].clone(), lengths)

    def batch(self, rows: np.ndarray | Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return ids (B, L) int64 and mask (B, L) of some rows on a device, trimmed to the longest text among them."""
        texts = self.select(rows)
        mask = torch.arange(texts.ids.shape[1]) < texts.lengths[:, None]
        return texts.ids.long().to(device), mask.to(device)


@dataclass(frozen=True)
class TokenisedPairs:
    """Pairs to score: pair i joins row query_rows[i] of the queries and row premise_rows[i] of the premises."""

    queries: PaddedTexts
    premises: PaddedTexts
    query_rows: np.ndarray
    premise_rows: np.ndarray

    @classmethod
    def from_names(
        cls, pairs: Iterable[tuple[str, str]], queries: Mapping[str, TokenIds], premises: Mapping[str, TokenIds]
    ) -> TokenisedPairs:
        """Create from the names of each pair's query and premise, and the token ids by name."""
        names_by_side = list(zip(*pairs, strict=True)) or [(), ()]
        rows = []
        for names, ids in zip(names_by_side, (queries, premises), strict=True):
            row_by_name = {name: row for row, name in enumerate(ids)}
            rows.append(np.array([row_by_name[name] for name in names], dtype=int))
        return cls(PaddedTexts.from_ids(list(queries.values())), PaddedTexts.from_ids(list(premises.values())), *rows)

    def get_premise_lengths(self) -> np.ndarray:
        """Return the premise length of each pair, (N,)."""
        lengths: np.ndarray = self.premises.lengths.numpy()[self.premise_rows]
        return lengths

    def group_by_query(self) -> list[np.ndarray]:
        """Group the pair numbers by query."""
        order = np.argsort(self.query_rows, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(self.query_rows[order])) + 1) if len(order) else []


def batch_by_length(lengths: Sequence[int] | np.ndarray, size: int) -> list[np.ndarray]:
    """Group row numbers into batches of at most `size` texts of similar length.

    The batches are deterministic, so that a resumed run uses the same ones.
    """
    order = np.argsort(lengths, kind="stable")
    return [order[start : start + size] for start in range(0, len(order), size)]


def batch_by_tokens(lengths: Sequence[int] | np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Group row numbers into batches of similar length, longest first.

    A batch has at most `max_tokens` tokens including padding, or a single row.
    """
    order, batches = np.argsort(-np.asarray(lengths), kind="stable"), []
    while len(order):
        size = max(1, max_tokens // max(1, int(lengths[order[0]])))
        batches.append(order[:size])
        order = order[size:]
    return batches
