"""Linear-chain conditional random field over the tags of a sequence.

Lafferty, McCallum, Pereira: Conditional Random Fields. ICML 2001. Lample et al.: Neural
Architectures for Named Entity Recognition. NAACL 2016.

State 0 is padding, the last state is the start, and the others are tags. The score of tags y with
emissions e and transitions T[to, from] is Σ_t e_t[y_t] + T[y_t, y_{t-1}], with y_0 the start; there
is no end state.

Shapes: B sequences, L tokens, S states. A sequence has at least one token; padding contributes
nothing to its score.
"""

import torch
from torch import Tensor, nn

PADDING_STATE = 0
FORBIDDEN_SCORE = -9999.0  # finite, but too low for any best path


class CRF(nn.Module):
    """Transition scores of a linear-chain CRF, with Viterbi decoding."""

    def __init__(self, tag_count: int) -> None:
        """Create transitions between `tag_count` tags; transitions to the start or between tags and
        padding are forbidden."""
        super().__init__()
        self.start = tag_count + 1
        transitions = torch.empty(tag_count + 2, tag_count + 2).normal_(-1, 0.1)
        transitions[self.start] = transitions[PADDING_STATE] = transitions[:, PADDING_STATE] = (
            FORBIDDEN_SCORE
        )
        transitions[PADDING_STATE, PADDING_STATE] = 0
        self.transitions = nn.Parameter(transitions)  # (S, S), to × from

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Find the best tags (B, L) int64 for emissions (B, L, S) by Viterbi decoding; padding gets
        the padding state."""
        # (B, S), score of the best path that ends in each state
        score = emissions[:, 0] + self.transitions[:, self.start]
        identity = torch.arange(score.shape[1], device=score.device).expand_as(score)
        back_pointers = []
        for emission, is_token in zip(emissions.unbind(1)[1:], mask.unbind(1)[1:], strict=True):
            path_score, back_pointer = (score[:, None] + self.transitions).max(dim=2)
            score = torch.where(is_token[:, None], path_score + emission, score)
            # (B, S), best previous state
            back_pointers.append(torch.where(is_token[:, None], back_pointer, identity))
        state = score.argmax(1, keepdim=True)
        states = [state]
        for back_pointer in reversed(back_pointers):
            state = back_pointer.gather(1, state)
            states.append(state)
        return torch.cat(states[::-1], dim=1).masked_fill(~mask, PADDING_STATE)
