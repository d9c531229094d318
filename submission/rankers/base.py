"""Base classes of rankers: tensors of ids and masks in, one score per pair out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from submission.rankers.network import Network
from submission.text.ids import Reads


@dataclass(frozen=True)
class Part:
    """A share of a score, and where it comes from: positions in query and document, the strongest first."""

    name: str
    value: float
    query: int | None = None
    document: tuple[int, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Explanation:
    """Why a pair has its score: parts that sum to it, before `output` is applied."""

    parts: list[Part]
    output: Callable[[Tensor], Tensor] | None = None  # None: the sum is the score
    remark: str = ""  # what the parts cannot tell
    by_omission: bool = False  # whether what changes when a piece is left out tells more than they do


def best(values: Tensor, least: float, most: int = 3) -> tuple[int, ...]:
    """The positions of the largest values (L,) above a least one, largest first."""
    order = values.argsort(descending=True, stable=True)[:most]
    return tuple(int(position) for position in order if values[position] > least)


class Ranker(Network, ABC):
    """A network that scores pairs of a query and a document.

    A score is a function of its pair: not of padding, of companions, or of the order. Pairs are scored one by one, in batches;
    a TopicRanker or SiameseRanker shares work.
    """

    reads: ClassVar[Reads] = "words"
    batch: ClassVar[int] = 512  # documents computed at a time, on a CPU
    kept_together: ClassVar[int] = 4096  # documents at least, whose scores are kept in one file: a kill costs so many

    def __call__(self, *tensors: Tensor) -> Tensor:
        """Compute without autocast, whoever has switched it on: only an encoder may lower its own precision.

        Similarities, kernels, histograms and scores need float32: the exact-match kernel is 0.001 wide, and bfloat16 scores
        of a thousand documents tie.
        """
        with torch.autocast(tensors[0].device.type, enabled=False):
            score: Tensor = super().__call__(*tensors)
        return score

    @abstractmethod
    def forward(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Tensor:
        """Score pairs.

        Args:
            query: ids (B, Q) int64.
            query_mask: (B, Q) bool, true on the query's own positions, false on padding.
            document: ids (B, D) int64.
            document_mask: (B, D) bool, likewise.

        Returns:
            scores (B,), float32 (float64 if the parameters are).
        """

    @abstractmethod
    def explain(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Explanation:
        """Why a single pair (B = 1) has its score. Arguments as for `forward`."""


class TopicRanker(Ranker):
    """A ranker that shares work between the documents of a query."""

    @abstractmethod
    def prepare(self, queries: Tensor) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
        """Return a scorer of documents for one query, equal to `forward` for each pair.

        Args:
            queries: ids (N, Q) int64, of all that may come: what they share is computed here.

        Returns:
            A function of a query's ids (1, Q) int64 and mask (1, Q) bool, documents' ids (B, D) and mask (B, D): scores (B,).
        """


class SiameseRanker(Ranker):
    """A ranker that makes a vector of each text alone, so that a document's vector serves all topics."""

    @abstractmethod
    def represent(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Vectors (B, V) of texts: ids (B, L), mask (B, L)."""

    def represent_many(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Compute `represent` for a batch; a subclass overrides it to share work between texts."""
        return self.represent(ids, mask)

    @abstractmethod
    def match(self, query: Tensor, document: Tensor) -> Tensor:
        """Scores (B,) of the vectors (B, V) of queries and of documents."""

    def forward(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Tensor:
        """Scores (B,) of the two texts' vectors."""
        return self.match(self.represent(query, query_mask), self.represent(document, document_mask))


class LatentRanker(SiameseRanker):
    """A ranker whose score is the dot product of two non-negative vectors that are mostly zero.

    Its documents can be put into an inverted index of latent terms, so that it needs no candidates of others.
    """

    def match(self, query: Tensor, document: Tensor) -> Tensor:
        """Scores (B,): the dot products."""
        return (query * document).sum(1)


class DenseRanker(SiameseRanker):
    """A ranker whose score is the dot product of two dense vectors of length 1, their cosine.

    Its documents can be put into an index of vectors, so that it needs no candidates of others.
    """

    def match(self, query: Tensor, document: Tensor) -> Tensor:
        """Scores (B,): the dot products."""
        return (query * document).sum(1)
