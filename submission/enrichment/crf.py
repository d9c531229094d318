"""A conditional random field over the tags of a sequence: each tag by what is seen of its word and by the tag before it.

Lafferty, McCallum, Pereira: Conditional Random Fields. ICML 2001. Lample et al.: Neural Architectures for Named Entity
Recognition. NAACL 2016.

States are 0 (padding), the tags from 1, and last the start. With emissions e and transitions T[to, from] the score of tags y is
Σ_t e_t[y_t] + T[y_t, y_{t-1}], y_0 the start; there is no state for the end.

Shapes: B sequences, L words of the longest, S states. A sequence has one word at least; what is outside the mask adds nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

PAD = 0
FORBIDDEN = -9999.0  # of a transition: far below what any sequence can gain elsewhere, and finite


class CRF(nn.Module):
    """The transitions, and what is summed or looked for over all ways through them."""

    def __init__(self, tags: int) -> None:
        """Of so many tags; nothing leads to the start, nor to or from padding."""
        super().__init__()
        self.start = tags + 1
        transitions = torch.empty(tags + 2, tags + 2).normal_(-1, 0.1)
        transitions[self.start] = transitions[PAD] = transitions[:, PAD] = FORBIDDEN
        transitions[PAD, PAD] = 0
        self.transitions = nn.Parameter(transitions)  # (S, S), to and from

    @torch.no_grad()
    def forbid_unseen(self, tags: Tensor) -> None:
        """Forbid what does not follow upon each other in any of some sequences of tags (B, L), padding behind them."""
        seen = torch.zeros_like(self.transitions, dtype=torch.bool)
        seen[tags, self._before(tags)] = True
        seen[PAD, PAD] = True
        self.transitions[~seen] = FORBIDDEN

    def loss(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """The mean of log Z - score over the sequences, the negative log-likelihood of their tags.

        Args:
            emissions: (B, L, S).
            tags: (B, L) int64, of each word.
            mask: (B, L) bool, true on the sequence's own words.
        """
        return (self.log_partition(emissions, mask) - self.score(emissions, tags, mask)).mean()

    def score(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """The scores (B,) of some tags (B, L)."""
        own = emissions.gather(2, tags[:, :, None]).squeeze(2) + self.transitions[tags, self._before(tags)]  # (B, L)
        return (own * mask).sum(1)

    def log_partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Log Z (B,): log Σ exp of the scores of all tags, by the forward recursion, a word of all sequences at a time."""
        total = emissions[:, 0] + self.transitions[:, self.start]  # (B, S), of all ways that end in a state
        for emission, inside in zip(emissions.unbind(1)[1:], mask.unbind(1)[1:], strict=True):
            on = emission + torch.logsumexp(total[:, None] + self.transitions, dim=2)
            total = torch.where(inside[:, None], on, total)
        return torch.logsumexp(total, dim=1)

    @torch.no_grad()
    def best(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """The tags (B, L) int64 with the highest score, padding outside the mask, by Viterbi's algorithm."""
        score = emissions[:, 0] + self.transitions[:, self.start]  # (B, S), of the best way that ends in a state
        stay = torch.arange(score.shape[1], device=score.device).expand_as(score)
        sources = []
        for emission, inside in zip(emissions.unbind(1)[1:], mask.unbind(1)[1:], strict=True):
            on, source = (score[:, None] + self.transitions).max(dim=2)
            score = torch.where(inside[:, None], on + emission, score)
            sources.append(torch.where(inside[:, None], source, stay))  # (B, S), where each of them comes from
        state = score.argmax(1, keepdim=True)
        states = [state]
        for source in reversed(sources):
            state = source.gather(1, state)
            states.append(state)
        return torch.cat(states[::-1], dim=1).masked_fill(~mask, PAD)

    def _before(self, tags: Tensor) -> Tensor:
        """The tag before each (B, L), of the first the start."""
        return torch.cat([torch.full_like(tags[:, :1], self.start), tags[:, :-1]], dim=1)
