"""The CRF compared with the enumeration of all tag sequences."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from submission.models.crf import CRF, FORBIDDEN_SCORE, PADDING_STATE
from training.tasks.tagging import compute_log_partition, forbid_unseen_transitions, score_tags

TAGS = 4
LENGTHS = (5, 1, 3)


@pytest.fixture
def crf() -> CRF:
    torch.manual_seed(0)
    network = CRF(TAGS).double()
    with torch.no_grad():
        network.transitions[1:-1, 1:] += torch.randn(TAGS, TAGS + 1)  # allowed transitions
    return network


def make_batch() -> tuple[Tensor, Tensor]:
    """Draw emissions and mask; emissions outside the mask are extreme."""
    emissions = torch.randn(len(LENGTHS), max(LENGTHS), TAGS + 2, dtype=torch.float64)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return emissions.masked_fill(~mask[:, :, None], 1e6), mask


def score_all_paths(crf: CRF, emissions: Tensor, length: int) -> dict[tuple[int, ...], float]:
    """Score all tag sequences for the emissions (L, S) of one sequence."""
    transitions, scores = crf.transitions.tolist(), {}
    for tags in product(range(TAGS + 2), repeat=length):
        steps = enumerate(zip(tags, (crf.start, *tags), strict=False))
        scores[tags] = sum(emissions[position][to].item() + transitions[to][origin] for position, (to, origin) in steps)
    return scores


def test_crf_equals_enumeration_of_all_paths(crf: CRF) -> None:
    emissions, mask = make_batch()
    log_partition, best = compute_log_partition(crf, emissions, mask), crf.decode(emissions, mask)
    for row, length in enumerate(LENGTHS):
        scores = score_all_paths(crf, emissions[row], length)
        expected = torch.tensor(list(scores.values()), dtype=torch.float64).logsumexp(0)
        torch.testing.assert_close(log_partition[row], expected, rtol=0, atol=1e-9)
        assert best[row].tolist() == [*max(scores, key=lambda tags: scores[tags]), *[PADDING_STATE] * (5 - length)]
        paths = list(scores)[:: max(1, len(scores) // 50)]
        tags = torch.nn.functional.pad(torch.tensor(paths), (0, 5 - length))
        batch = (part[row].expand(len(paths), *part.shape[1:]) for part in (emissions, mask))
        expected = torch.tensor([scores[path] for path in paths], dtype=torch.float64)
        torch.testing.assert_close(score_tags(crf, next(batch), tags, next(batch)), expected, rtol=1e-12, atol=1e-9)


def test_forbidden_transitions_never_occur() -> None:
    """Tags O, B, I and one that never occurs: I follows only B or I, whatever the emissions."""
    torch.manual_seed(1)
    crf = CRF(TAGS)
    sequences = [[1, 2, 3, 3, 1, 1], [2, 2, 3, 2, 1, 2], [1, 2, 1, 0, 0, 0], [2, 1, 0, 0, 0, 0]]
    forbid_unseen_transitions(crf, torch.tensor(sequences))
    allowed = {(1, 1), (2, 1), (1, 2), (2, 2), (3, 2), (1, 3), (2, 3), (3, 3), (1, crf.start), (2, crf.start)}
    possible = {(to, origin) for to, origin in product(range(6), repeat=2) if crf.transitions[to, origin] > FORBIDDEN_SCORE}
    assert possible == allowed | {(PADDING_STATE, PADDING_STATE)}
    rows = crf.decode(50 * torch.randn(160, 8, TAGS + 2), torch.ones(160, 8, dtype=torch.bool)).tolist()
    assert {pair for row in rows for pair in zip(row, [crf.start, *row], strict=False)} == allowed
