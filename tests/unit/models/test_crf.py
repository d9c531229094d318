"""The CRF compared with the enumeration of all tag sequences."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from submission.models.crf import CRF, FORBIDDEN_SCORE, PADDING_STATE
from training.tasks.tagging import compute_crf_loss, compute_log_partition, forbid_unseen_transitions, score_tags

TAGS = 4
LENGTHS = (5, 1, 3)


@pytest.fixture
def crf() -> CRF:
    torch.manual_seed(0)
    network = CRF(TAGS).double()
    with torch.no_grad():
        network.transitions[1:-1, 1:] += torch.randn(TAGS, TAGS + 1)  # allowed transitions
    return network


def make_batch(lengths: tuple[int, ...] = LENGTHS, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Draw emissions and mask; emissions outside the mask are extreme."""
    emissions = scale * torch.randn(len(lengths), max(lengths), TAGS + 2, dtype=torch.float64)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return emissions.masked_fill(~mask[:, :, None], 1e6), mask


def score_all_paths(crf: CRF, emissions: Tensor, length: int) -> dict[tuple[int, ...], float]:
    """Score all tag sequences for the emissions (L, S) of one sequence."""
    transitions, scores = crf.transitions.tolist(), {}
    for tags in product(range(TAGS + 2), repeat=length):
        steps = zip(tags, (crf.start, *tags), strict=False)
        scores[tags] = sum(
            emissions[position][to].item() + transitions[to][origin] for position, (to, origin) in enumerate(steps)
        )
    return scores


def test_crf_equals_enumeration_of_all_paths(crf: CRF) -> None:
    emissions, mask = make_batch()
    log_partition, best = compute_log_partition(crf, emissions, mask), crf.decode(emissions, mask)
    for row, length in enumerate(LENGTHS):
        scores = score_all_paths(crf, emissions[row], length)
        assert len(scores) == (TAGS + 2) ** length
        expected = torch.tensor(list(scores.values()), dtype=torch.float64).logsumexp(0)
        torch.testing.assert_close(log_partition[row], expected, rtol=0, atol=1e-9)
        assert tuple(best[row, :length].tolist()) == max(scores, key=lambda tags: scores[tags])
        assert best[row, length:].tolist() == [PADDING_STATE] * (5 - length)
        tags = torch.zeros(3, 5, dtype=torch.int64)
        for way in [*scores][:: max(1, len(scores) // 50)]:
            tags[row, :length] = torch.tensor(way)
            score = score_tags(crf, emissions, tags, mask)[row]
            torch.testing.assert_close(score.item(), scores[way], rtol=1e-12, atol=1e-9)


def test_path_probabilities_sum_to_one(crf: CRF) -> None:
    emissions, mask = make_batch((2,), scale=30.0)
    ways = torch.tensor(list(product(range(TAGS + 2), repeat=2)))
    every = emissions.expand(len(ways), -1, -1)
    scores = score_tags(crf, every, ways, mask.expand(len(ways), -1))
    assert (scores - compute_log_partition(crf, emissions, mask)).exp().sum().item() == pytest.approx(1, abs=1e-9)
    loss = compute_crf_loss(crf, emissions, ways[8:9], mask)
    assert loss.item() == pytest.approx((compute_log_partition(crf, emissions, mask) - scores[8]).item(), abs=1e-9)


def test_crf_does_not_depend_on_padding_or_batch(crf: CRF) -> None:
    emissions, mask = make_batch()
    tags = torch.randint(1, TAGS + 1, mask.shape).masked_fill(~mask, PADDING_STATE)
    for row, length in enumerate(LENGTHS):
        alone = emissions[row : row + 1, :length], mask[row : row + 1, :length]
        assert torch.equal(crf.decode(*alone)[0], crf.decode(emissions, mask)[row, :length])
        torch.testing.assert_close(
            compute_log_partition(crf, *alone)[0], compute_log_partition(crf, emissions, mask)[row], rtol=0, atol=1e-12
        )
        score = score_tags(crf, alone[0], tags[row : row + 1, :length], alone[1])[0]
        torch.testing.assert_close(score, score_tags(crf, emissions, tags, mask)[row], rtol=0, atol=1e-12)
    emissions.requires_grad_()
    compute_crf_loss(crf, emissions, tags, mask).backward()
    assert emissions.grad is not None
    assert emissions.grad[~mask].abs().max() == 0
    assert emissions.grad[mask].abs().max() > 0


def test_start_and_padding_transitions_are_forbidden() -> None:
    torch.manual_seed(2)
    best = CRF(TAGS).decode(50 * torch.randn(200, 6, TAGS + 2), torch.ones(200, 6, dtype=torch.bool))
    assert set(best.flatten().tolist()) == set(range(1, TAGS + 1))
    assert CRF(TAGS).transitions[PADDING_STATE, PADDING_STATE] == 0


def test_forbidden_transitions_never_occur() -> None:
    """Tags O, B, I and one that never occurs: I follows only B or I, whatever the emissions."""
    torch.manual_seed(1)
    crf = CRF(TAGS)
    seen = torch.tensor([[1, 2, 3, 3, 1, 1], [2, 2, 3, 2, 1, 2], [1, 2, 1, 0, 0, 0], [2, 1, 0, 0, 0, 0]])
    forbid_unseen_transitions(crf, seen)
    allowed = {(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2), (3, 2), (1, 3), (2, 3), (3, 3)} - {(1, 0), (2, 0)}
    allowed |= {(1, crf.start), (2, crf.start), (0, 0)}
    possible = {(to, origin) for to, origin in product(range(6), repeat=2) if crf.transitions[to, origin] > FORBIDDEN_SCORE}
    assert possible == allowed
    lengths = tuple(range(1, 9)) * 20
    emissions = 50 * torch.randn(len(lengths), 8, TAGS + 2)
    best = crf.decode(emissions, torch.arange(8) < torch.tensor(lengths)[:, None])
    decoded = {
        pair
        for row, length in zip(best.tolist(), lengths, strict=True)
        for pair in zip(row[:length], [crf.start, *row], strict=False)
    }
    assert decoded == allowed - {(0, 0)}
