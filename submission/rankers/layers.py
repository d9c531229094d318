"""Layers that several rankers share: cosine similarities, kernel pooling, histograms.

Shapes: B pairs, Q query terms, D document terms, E dimensions, K kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from submission.rankers.base import Part, best
from submission.text.ids import PADDING, UNKNOWN

WORDS_AT_A_TIME = (
    512  # words of a table that are compared at a time: few, so that what is made of them stays in the processor's cache
)


def known(ids: Tensor, mask: Tensor) -> Tensor:
    """The mask (B, L) of the known words: two unknown words are no exact match."""
    return mask & (ids != UNKNOWN)


def read_both_ways(ahead: nn.Module, back: nn.Module, vectors: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Read texts by two recurrent layers, each from its own end of a text.

    The backward layer reads a text reversed within its length, so that padding comes last for both layers and touches nothing.
    (Packed sequences give the same; their gradient takes several times as long on a CPU.)

    Args:
        ahead: reads (B, L, E) and returns its states (B, L, H) first, as torch's recurrent layers do.
        back: the same for the other direction.
        vectors: (B, L, E).
        mask: (B, L) bool, true on a text's own words.

    Returns:
        The states (B, L, H) of `ahead`; those of `back`, a text's last word first; the places (B, L) of that order.
    """
    mirrored = (mask.sum(1, keepdim=True) - 1 - torch.arange(mask.shape[1], device=mask.device)).clamp(min=0)
    return ahead(vectors)[0], back(taken(vectors, mirrored))[0], mirrored


def taken(vectors: Tensor, places: Tensor) -> Tensor:
    """Take vectors (B, L, V) at places (B, L) of their own rows."""
    return vectors.gather(1, places.unsqueeze(2).expand_as(vectors))


def distinct(ids: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """The distinct words of texts, so that each is computed once, and where each position's word is among them.

    Args:
        ids: (B, L).
        rows: of the word table.

    Returns:
        ids (T,) ascending, the first one always padding; numbers (B, L) of their rows.
    """
    present = torch.zeros(rows, dtype=torch.bool, device=ids.device).index_fill_(0, ids.flatten(), True)
    present[PADDING] = True
    numbers = present.cumsum(0) - 1
    place = numbers.index_select(0, ids.flatten()).reshape(ids.shape)  # several times as fast as numbers[ids]
    return present.nonzero().squeeze(1), place


def convolve(vectors: Tensor, place: Tensor, weight: Tensor, size: int) -> Iterator[Tensor]:
    """A convolution over texts, with what each distinct word adds to a window, at each of its h places, computed once.

    Args:
        vectors: (T, E), of the distinct words.
        place: (B, L), the numbers of the texts' words among them.
        weight: (C, E, h), the convolution's.
        size: texts at a time: few, so that what is made of them stays in the processor's cache.

    Yields:
        (b, L - h + 1, C), without bias, of one part of the texts after the other.
    """
    window = weight.shape[2]
    shares = torch.cat([vectors @ weight[:, :, number].t() for number in range(window)])  # (h · T, C)
    first = torch.arange(window, device=place.device) * len(vectors)
    for part in torch.split(place, size):
        rows = part.unfold(1, window, 1) + first  # (b, W, h)
        yield functional.embedding_bag(rows.flatten(0, 1), shares, mode="sum").reshape(*rows.shape[:2], -1)


def cosine(query: Tensor, document: Tensor) -> Tensor:
    """Cosine similarities (…, Q, D) of vectors (…, Q, E) and (…, D, E)."""
    query, document = (functional.normalize(vectors, dim=-1, eps=1e-12) for vectors in (query, document))
    return query @ document.transpose(-1, -2)


class Kernels(nn.Module):
    """RBF kernels: how many document terms have about a certain similarity to a query term (Xiong et al. 2017, eq. 4)."""

    mus: Tensor
    sigmas: Tensor

    def __init__(self, mus: Sequence[float], sigmas: Sequence[float]) -> None:
        super().__init__()
        # float64 here: converting the network to double must find the exact values. They are cast at use.
        self.register_buffer("mus", torch.tensor(mus, dtype=torch.float64), persistent=False)
        self.register_buffer("sigmas", torch.tensor(sigmas, dtype=torch.float64), persistent=False)

    def forward(self, similarity: Tensor, document_mask: Tensor) -> Tensor:
        """Soft counts (…, Q, K) of similarities (…, Q, D); positions outside the mask (…, D) count nothing."""
        return (self.values(similarity) * document_mask[..., None, :, None]).sum(-2)

    def values(self, similarity: Tensor) -> Tensor:
        """Compute the kernel values (…, K) of similarities (…)."""
        mus, factors = (buffer.to(similarity.dtype) for buffer in (self.mus, -1 / (2 * self.sigmas**2)))
        return torch.exp((similarity.unsqueeze(-1) - mus) ** 2 * factors)


class KernelPooling(Kernels):
    """KNRM's kernels, summed over the document and log-summed over the query (Xiong et al. 2017, eq. 2-4).

    The first kernel is the exact match (mu 1, sigma 0.001); the others divide [-1, 1] into equal bins, from the top down,
    sigma 0.1. They are fixed. The logarithm's floor and factor are those of the authors' code.
    """

    def __init__(self, kernels: int) -> None:
        width = 2 / (kernels - 1)
        super().__init__([1.0, *(1 - width / 2 - width * k for k in range(kernels - 1))], [0.001] + [0.1] * (kernels - 1))

    def pool(self, similarity: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        """Features (B, K) of similarities (B, Q, D); masked positions count nothing."""
        return self.shares(similarity, query_mask, document_mask).sum(1)

    def shares(self, similarity: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        """Compute the share of each query position in the features, (B, Q, K)."""
        return self.logs(self(similarity, document_mask), query_mask)

    def logs(self, matches: Tensor, query_mask: Tensor) -> Tensor:
        """Compute the share of each query position in the features, (B, Q, K), from soft counts (B, Q, K)."""
        return 0.01 * matches.clamp(min=1e-10).log() * query_mask[:, :, None]

    def explain(self, similarity: Tensor, query_mask: Tensor, document_mask: Tensor, weights: Tensor, name: str) -> list[Part]:
        """The shares of a score that is `weights` (K,) times the features of a single pair (B = 1)."""
        values = self.shares(similarity, query_mask, document_mask)[0] * weights
        return kernel_parts(self, similarity[0].masked_fill(~document_mask[0], -torch.inf), values, name)


def kernel_parts(kernels: Kernels, similarity: Tensor, values: Tensor, name: str) -> list[Part]:
    """The shares of a score that kernels have.

    Args:
        kernels: whose mus name the parts.
        similarity: (Q, D), -inf where nothing is counted.
        values: (Q, K), what each kernel adds for each query position.
        name: goes before the kernel's mu.
    """
    parts = []
    for query, row in enumerate(values.tolist()):
        for mu, sigma, value in zip(kernels.mus.tolist(), kernels.sigmas.tolist(), row, strict=True):
            if value:
                nearness = torch.exp(-((similarity[query] - mu) ** 2) / (2 * sigma**2))
                parts.append(Part(f"{name} {mu:+.2f}", value, query, best(nearness, 0.1)))
    return parts


def log_histogram(similarity: Tensor, counted: Tensor, bins: int, smoothing: float, dtype: torch.dtype) -> Tensor:
    """ln(count + smoothing) per bin, (…, Q, bins), of similarities (…, Q, D) (Guo et al. 2016; CEDR's bins).

    No gradient passes. `counted` is a mask that broadcasts to the similarities; `dtype` is the histogram's.
    """
    counts = torch.zeros(*similarity.shape[:-1], bins, dtype=dtype, device=similarity.device)
    counts.scatter_add_(-1, bins_of(similarity, bins), counted.to(dtype).expand_as(similarity))
    return (counts + smoothing).log()


def bins_of(similarity: Tensor, bins: int) -> Tensor:
    """Bin numbers (…) of similarities (…): trunc((S + 1 + 1e-6) / 2 · (bins - 1)); the last holds the exact matches alone."""
    return ((similarity + 1.000001) / 2 * (bins - 1)).long().clamp(0, bins - 1)


class FrozenTable(nn.Module):
    """Word vectors that are not trained: a buffer, ids (B, L) to vectors (B, L, E)."""

    weight: Tensor

    def __init__(self, rows: int, dimensions: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(rows, dimensions))

    def forward(self, ids: Tensor) -> Tensor:
        """The rows of ids."""
        return functional.embedding(ids, self.weight)
