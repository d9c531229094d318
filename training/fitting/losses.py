"""The training loss: pairwise hinge, and for latent networks the L1 norm of their vectors too."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from submission.errors import UsageError
from submission.rankers.base import LatentRanker, Ranker, SiameseRanker

Text = tuple[Tensor, Tensor]  # ids (B, L) and mask (B, L)


def loss(ranker: Ranker, query: Text, related: Text, unrelated: Text, margin: float, sparsity: float) -> Tensor:
    """The loss of a batch, a scalar; `sparsity` is the weight of the L1 norm (0: no such term).

    A network that makes a vector of each text alone reads the query once, and both premises side by side.

    Raises:
        UsageError: sparsity for a ranker that has no latent vectors.
    """
    if sparsity and not isinstance(ranker, LatentRanker):
        raise UsageError(f"{ranker.name()} has no latent vectors; remove training.sparsity from the recipe")
    if not isinstance(ranker, SiameseRanker):
        return hinge(ranker(*query, *related), ranker(*query, *unrelated), margin)
    q = ranker.represent_many(*query)
    d1, d2 = ranker.represent_many(*map(_joined, related, unrelated)).chunk(2)
    value = hinge(ranker.match(q, d1), ranker.match(q, d2), margin)
    return value + sparsity * l1(q, d1, d2) if sparsity else value


def hinge(related: Tensor, unrelated: Tensor, margin: float) -> Tensor:
    """The pairwise hinge loss, a scalar: mean of max(0, margin - related + unrelated) of scores (B,) (thesis eq. 3.5, 3.18)."""
    return functional.relu(margin - related + unrelated).mean()


def l1(*vectors: Tensor) -> Tensor:
    """Mean over the batch of the L1 norms of all vectors together, a scalar (thesis eq. 3.20)."""
    return torch.cat(vectors, dim=1).abs().sum(1).mean()


def _joined(*parts: Tensor) -> Tensor:
    """Ids or masks (B, L) of several batches as one, padded to the longest."""
    longest = max(part.shape[1] for part in parts)
    return torch.cat([functional.pad(part, (0, longest - part.shape[1])) for part in parts])
