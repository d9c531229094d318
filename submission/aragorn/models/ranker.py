"""Base classes of rankers: networks that score query-document pairs of token ids."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from aragorn.explanation import Explanation
from aragorn.models.network import Network
from aragorn.text.vocabulary import InputUnit


def find_top_positions(values: Tensor, threshold: float, limit: int = 3) -> tuple[int, ...]:
    """Return the positions of at most `limit` largest values (L,) above `threshold`, descending."""
    order = values.argsort(descending=True, stable=True)[:limit]
    return tuple(int(position) for position in order if values[position] > threshold)


class Ranker(Network, ABC):
    """A network that scores pairs, independently of padding, batch composition and order."""

    token_unit: ClassVar[InputUnit] = "words"
    cpu_batch_size: ClassVar[int] = 512  # documents
    # minimum documents per cached shard; a resumed run repeats at most one shard per worker
    shard_size: ClassVar[int] = 4096
    # whether omitting single subwords tells more than the contributions
    uses_occlusion: ClassVar[bool] = False

    def __call__(self, *tensors: Tensor) -> Tensor:
        """Run the network without autocast, which only an encoder may use.

        Similarities, kernels, histograms and scores need float32: the width of the exact-match
        kernel is 0.001, and many of a topic's thousand documents would have equal bfloat16 scores.
        """
        with torch.autocast(tensors[0].device.type, enabled=False):
            score: Tensor = super().__call__(*tensors)
        return score

    @abstractmethod
    def forward(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        """Compute the scores (B,) of pairs, in float32, or in float64 as the parameters.

        Args:
            query: (B, Q) int64, token ids of the queries.
            query_mask: (B, Q) bool, true for tokens, false for padding.
            document: (B, D) int64, token ids of the documents.
            document_mask: (B, D) bool, true for tokens, false for padding.
        """

    @abstractmethod
    def explain(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Explanation:
        """Explain a pair's score (B = 1) by contributions that sum to it, or to the score before the
        activation."""


class TopicRanker(Ranker):
    """A ranker that shares computations between queries and between the documents of a query."""

    @abstractmethod
    def prepare_queries(
        self, queries: Tensor
    ) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
        """Precompute values shared by queries with ids (N, Q); return a function for one query.

        It maps query ids (1, Q) and mask (1, Q), and document ids (B, D) and mask (B, D), to the
        scores (B,) that `forward` computes.
        """


class SiameseRanker(Ranker):
    """A bi-encoder, whose document vectors do not depend on the query."""

    @abstractmethod
    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode texts, given as ids (B, L) and mask (B, L), as vectors (B, V)."""

    def encode_batch(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Encode texts as `encode` does; subclasses may share computations between them."""
        return self.encode(ids, mask)

    @abstractmethod
    def score_vectors(self, query: Tensor, document: Tensor) -> Tensor:
        """Compute the scores (B,) of query vectors (B, V) and document vectors (B, V)."""

    def forward(
        self, query: Tensor, query_mask: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        """Compute the scores (B,) of pairs from their vectors."""
        return self.score_vectors(
            self.encode(query, query_mask), self.encode(document, document_mask)
        )


class DotProductRanker(SiameseRanker):
    """A bi-encoder whose score is the dot product of query and document vector."""

    def score_vectors(self, query: Tensor, document: Tensor) -> Tensor:
        return (query * document).sum(1)


class LatentRanker(DotProductRanker):
    """A bi-encoder with sparse, non-negative vectors, indexed by latent terms."""


class DenseRanker(DotProductRanker):
    """A bi-encoder with dense unit vectors, searchable with a vector index."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of components of a vector."""
