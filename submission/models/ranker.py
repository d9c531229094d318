"""Base classes of rankers: networks that score query-document pairs given as token ids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from submission.models.network import Network
from submission.text.vocabulary import InputUnit


@dataclass(frozen=True)
class Contribution:
    """A contribution to a score and the query and document positions it comes from, strongest first."""

    label: str
    value: float
    query_position: int | None = None
    document_positions: tuple[int, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class NetworkExplanation:
    """Contributions that sum to a score before its activation."""

    contributions: list[Contribution]
    activation: Callable[[Tensor], Tensor] | None = None  # None: the sum is the score
    caveat: str = ""  # limits of the contributions
    use_occlusion: bool = False  # whether occlusion is more informative than the contributions


def find_top_positions(values: Tensor, threshold: float, limit: int = 3) -> tuple[int, ...]:
    """Return the positions of the largest values (L,) above a threshold, largest first."""
    order = values.argsort(descending=True, stable=True)[:limit]
    return tuple(int(position) for position in order if values[position] > threshold)


class Ranker(Network, ABC):
    """A network that scores query-document pairs, independently of padding, batch composition and order."""

    token_unit: ClassVar[InputUnit] = "words"
    cpu_batch_size: ClassVar[int] = 512  # documents
    shard_size: ClassVar[int] = 4096  # minimum documents per cached shard; an interruption repeats at most one shard

    def __call__(self, *tensors: Tensor) -> Tensor:
        """Run the network without autocast, even if it is enabled; only an encoder may lower its own precision.

        Similarities, kernels, histograms and scores need float32: the exact-match kernel is 0.001 wide, and bfloat16 scores
        of a thousand documents tie.
        """
        with torch.autocast(tensors[0].device.type, enabled=False):
            score: Tensor = super().__call__(*tensors)
        return score

    @abstractmethod
    def forward(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Tensor:
        """Score pairs (B,) float32, or float64 if the parameters are.

        Args:
            query: ids (B, Q) int64.
            query_mask: (B, Q) bool, true for query tokens, false for padding.
            document: ids (B, D) int64.
            document_mask: (B, D) bool.
        """

    @abstractmethod
    def explain(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> NetworkExplanation:
        """Explain the score of a single pair (B = 1); arguments as for `forward`."""


class TopicRanker(Ranker):
    """A ranker that shares work between queries and between the documents of a query."""

    @abstractmethod
    def prepare_queries(self, queries: Tensor) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
        """Compute the shared work of all queries, ids (N, Q); return a scorer (B,) of one query's documents.

        The scorer takes query ids (1, Q) and mask (1, Q), document ids (B, D) and mask (B, D), and equals `forward`.
        """


class SiameseRanker(Ranker):
    """A bi-encoder, whose document vectors are shared by all topics."""

    @abstractmethod
    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode texts, ids (B, L) and mask (B, L), as vectors (B, V)."""

    def encode_batch(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode a batch; subclasses override it to share work between texts."""
        return self.encode(ids, mask)

    @abstractmethod
    def score_vectors(self, query: Tensor, document: Tensor) -> Tensor:
        """Score query vectors (B, V) with document vectors (B, V) → (B,)."""

    def forward(self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor) -> Tensor:
        """Score pairs (B,) by their vectors."""
        return self.score_vectors(self.encode(query, query_mask), self.encode(document, document_mask))


class DotProductRanker(SiameseRanker):
    """A bi-encoder that scores by the dot product of query and document vector."""

    def score_vectors(self, query: Tensor, document: Tensor) -> Tensor:
        return (query * document).sum(1)


class LatentRanker(DotProductRanker):
    """A ranker of sparse, non-negative vectors; an inverted index of latent terms makes it a first-stage retriever."""


class DenseRanker(DotProductRanker):
    """A ranker of dense unit vectors, scored by cosine similarity; a vector index makes it a first-stage retriever."""
