"""Compute the loss of a linear-chain conditional random field, and restrict its transitions.

Shapes: B sequences, L tokens, S states. A sequence has at least one token; masked positions contribute nothing.
"""

import torch
from torch import Tensor

from submission.models.crf import CRF, FORBIDDEN_SCORE, PADDING_STATE


@torch.no_grad()
def forbid_unseen_transitions(crf: CRF, tags: Tensor) -> None:
    """Forbid transitions that do not occur in the right-padded tag sequences (B, L)."""
    is_allowed = torch.zeros_like(crf.transitions, dtype=torch.bool)
    is_allowed[tags, _get_previous_tags(crf, tags)] = is_allowed[PADDING_STATE, PADDING_STATE] = True
    crf.transitions[~is_allowed] = FORBIDDEN_SCORE


def compute_crf_loss(crf: CRF, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    """Compute the mean negative log-likelihood, log Z - score, of tags (B, L) given emissions (B, L, S)."""
    return (compute_log_partition(crf, emissions, mask) - score_tags(crf, emissions, tags, mask)).mean()


def score_tags(crf: CRF, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    """Compute the scores (B,) of tag sequences (B, L)."""
    emitted = emissions.gather(2, tags[:, :, None]).squeeze(2)  # (B, L)
    return ((emitted + crf.transitions[tags, _get_previous_tags(crf, tags)]) * mask).sum(1)


def compute_log_partition(crf: CRF, emissions: Tensor, mask: Tensor) -> Tensor:
    """Compute log Z (B,) with the forward algorithm."""
    total = emissions[:, 0] + crf.transitions[:, crf.start]  # (B, S), log-sum over the paths that end in each state
    for emission, active in zip(emissions.unbind(1)[1:], mask.unbind(1)[1:], strict=True):
        extended = emission + torch.logsumexp(total[:, None] + crf.transitions, dim=2)
        total = torch.where(active[:, None], extended, total)
    return torch.logsumexp(total, dim=1)


def _get_previous_tags(crf: CRF, tags: Tensor) -> Tensor:
    """Return the previous tag of each token, (B, L); the start state for the first."""
    return torch.cat([torch.full_like(tags[:, :1], crf.start), tags[:, :-1]], dim=1)
