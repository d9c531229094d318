"""Define the base classes of networks in checkpoints, of rankers and tokenisers; pad token ids.

Rankers score query-document pairs of token ids.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn

from aragorn.explanation import Explanation
from aragorn.text.tokenisers import PADDING_ID, InputUnit

TokenIds = Sequence[int] | np.ndarray  # token ids of one text


class StoredTokeniser(Protocol):
    """Interface of tokenisers that are stored in checkpoints."""

    file: ClassVar[str]  # name of the tokeniser's file in a checkpoint

    def fits_embedding(self, n_rows: int) -> bool:
        """Return whether an embedding table with `n_rows` rows fits the vocabulary."""

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
    computes_with: ClassVar[tuple[str, ...]] = ("aragorn.text.tokenisers", "numpy", "torch")
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
        """Explain a pair's score (B = 1) by contributions that sum to it, or to the score before
        the activation."""


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


def find_top_positions(values: Tensor, threshold: float, limit: int = 3) -> tuple[int, ...]:
    """Return the positions of at most `limit` largest values (L,) above `threshold`, descending."""
    order = values.argsort(descending=True, stable=True)[:limit]
    return tuple(int(position) for position in order if values[position] > threshold)


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
