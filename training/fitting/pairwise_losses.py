"""Pairwise hinge loss, with an L1 penalty for latent networks."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from submission.errors import UsageError
from submission.models.ranker import LatentRanker, Ranker, SiameseRanker

Text = tuple[Tensor, Tensor]  # ids (B, L) and mask (B, L)


def loss(ranker: Ranker, query: Text, related: Text, unrelated: Text, margin: float, sparsity: float) -> Tensor:
    """Return the loss of a batch, a scalar.

    Siamese networks encode the query once and both premises in one batch. `sparsity` weighs the L1 norm.

    Raises:
        UsageError: an L1 weight for a ranker without latent vectors.
    """
    if sparsity and not isinstance(ranker, LatentRanker):
        raise UsageError(f"{ranker.name()} has no latent vectors; remove training.sparsity from the recipe")
    if not isinstance(ranker, SiameseRanker):
        return hinge(ranker(*query, *related), ranker(*query, *unrelated), margin)
    q = ranker.represent_many(*query)
    d1, d2 = ranker.represent_many(*map(_joined, related, unrelated)).chunk(2)
    hinge_loss = hinge(ranker.match(q, d1), ranker.match(q, d2), margin)
    return hinge_loss + sparsity * l1(q, d1, d2) if sparsity else hinge_loss


def hinge(related: Tensor, unrelated: Tensor, margin: float) -> Tensor:
    """Return the mean of max(0, margin - positive + negative) of scores (B,) (Entezari 2020, eq. 3.5, 3.18)."""
    return functional.relu(margin - related + unrelated).mean()


def l1(*vectors: Tensor) -> Tensor:
    """Return the batch mean of the summed L1 norms (Entezari 2020, eq. 3.20)."""
    return torch.cat(vectors, dim=1).abs().sum(1).mean()


def _joined(*parts: Tensor) -> Tensor:
    """Concatenate batches (B, L), padded to the longest."""
    longest = max(part.shape[1] for part in parts)
    return torch.cat([functional.pad(part, (0, longest - part.shape[1])) for part in parts])
