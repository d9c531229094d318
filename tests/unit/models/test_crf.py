"""Test of the forbidden transitions of the CRF."""

from __future__ import annotations

from itertools import product

import torch

from submission.models.crf import CRF, FORBIDDEN_SCORE, PADDING_STATE
from training.tasks.tagging import forbid_unseen_transitions

TAGS = 4


def test_forbidden_transitions_never_occur() -> None:
    """Decode random emissions with the tags O, B, I and one that occurs in no sequence; I may follow only B or I."""
    torch.manual_seed(1)
    crf = CRF(TAGS)
    sequences = [[1, 2, 3, 3, 1, 1], [2, 2, 3, 2, 1, 2], [1, 2, 1, 0, 0, 0], [2, 1, 0, 0, 0, 0]]
    forbid_unseen_transitions(crf, torch.tensor(sequences))
    allowed = {(1, 1), (2, 1), (1, 2), (2, 2), (3, 2), (1, 3), (2, 3), (3, 3), (1, crf.start), (2, crf.start)}
    possible = {(to, origin) for to, origin in product(range(6), repeat=2) if crf.transitions[to, origin] > FORBIDDEN_SCORE}
    assert possible == allowed | {(PADDING_STATE, PADDING_STATE)}
    rows = crf.decode(50 * torch.randn(160, 8, TAGS + 2), torch.ones(160, 8, dtype=torch.bool)).tolist()
    assert {pair for row in rows for pair in zip(row, [crf.start, *row], strict=False)} == allowed
