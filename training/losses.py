"""What training makes small: the pairwise hinge loss, and for latent networks the L1 norm of their vectors too."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from submission.errors import UsageError
from submission.rankers.base import LatentRanker, Ranker

Text = tuple[Tensor, Tensor]  # ids (B, L) and mask (B, L)


def loss(ranker: Ranker, query: Text, related: Text, unrelated: Text, margin: float, sparsity: float) -> Tensor:
    """The loss of a batch, a scalar; `sparsity` is the weight of the L1 norm (0: no such term).

    Raises:
        UsageError: sparsity for a ranker that has no latent vectors.
    """
    if not sparsity:
        return hinge(ranker(*query, *related), ranker(*query, *unrelated), margin)
    if not isinstance(ranker, LatentRanker):
        raise UsageError(f"{ranker.name()} has no latent vectors; remove training.sparsity from the recipe")
    q, d1, d2 = (ranker.represent(*text) for text in (query, related, unrelated))
    return latent_hinge(q, d1, d2, margin) + sparsity * l1(q, d1, d2)


def hinge(related: Tensor, unrelated: Tensor, margin: float) -> Tensor:
    """The pairwise hinge loss, a scalar: mean of max(0, margin - related + unrelated) (thesis eq. 3.5)."""
    return functional.relu(margin - related + unrelated).mean()


def latent_hinge(query: Tensor, related: Tensor, unrelated: Tensor, margin: float) -> Tensor:
    """The same from latent vectors (B, latent), whose dot products are the scores (thesis eq. 3.18)."""
    return hinge((query * related).sum(1), (query * unrelated).sum(1), margin)


def l1(*vectors: Tensor) -> Tensor:
    """Mean over the batch of the L1 norms of all vectors together, a scalar (thesis eq. 3.20)."""
    return torch.cat(vectors, dim=1).abs().sum(1).mean()
