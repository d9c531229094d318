"""Pairwise hinge loss, with an L1 penalty for latent networks."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from submission.errors import UsageError
from submission.models.ranker import LatentRanker, Ranker, SiameseRanker

MaskedIds = tuple[Tensor, Tensor]  # ids (B, L) and mask (B, L)


def pairwise_loss(
    ranker: Ranker, query: MaskedIds, positive: MaskedIds, negative: MaskedIds, margin: float, l1_weight: float
) -> Tensor:
    """Return the loss of a batch, a scalar.

    Siamese networks encode the query once and both premises in one batch. `l1_weight` weighs the L1 norm.

    Raises:
        UsageError: an L1 weight for a ranker without latent vectors.
    """
    if l1_weight and not isinstance(ranker, LatentRanker):
        raise UsageError(f"{ranker.get_name()} has no latent vectors; remove training.l1_weight from the recipe")
    if not isinstance(ranker, SiameseRanker):
        return hinge_loss(ranker(*query, *positive), ranker(*query, *negative), margin)
    q = ranker.encode_batch(*query)
    d1, d2 = ranker.encode_batch(*map(_concat_padded, positive, negative)).chunk(2)
    loss = hinge_loss(ranker.score_vectors(q, d1), ranker.score_vectors(q, d2), margin)
    return loss + l1_weight * l1_norm(q, d1, d2) if l1_weight else loss


def hinge_loss(positive: Tensor, negative: Tensor, margin: float) -> Tensor:
    """Return the mean of max(0, margin - positive + negative) of scores (B,) (Entezari 2020, eq. 3.5, 3.18)."""
    return functional.relu(margin - positive + negative).mean()


def l1_norm(*vectors: Tensor) -> Tensor:
    """Return the batch mean of the summed L1 norms (Entezari 2020, eq. 3.20)."""
    return torch.cat(vectors, dim=1).abs().sum(1).mean()


def _concat_padded(*parts: Tensor) -> Tensor:
    """Concatenate batches (B, L), padded to the longest."""
    longest = max(part.shape[1] for part in parts)
    return torch.cat([functional.pad(part, (0, longest - part.shape[1])) for part in parts])
