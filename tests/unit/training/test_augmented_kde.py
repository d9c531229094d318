"""Thinning random pairs to gold's distribution of labels."""

from __future__ import annotations

import numpy as np
import pytest

from submission.errors import TrainingError
from training.augmented.kde import by_class, by_density, retention


def degrees(seed: int, mean: float, number: int) -> np.ndarray:
    return np.clip(np.random.default_rng(seed).normal(mean, 0.12, number), 0, 1)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Half the sum of differences of two histograms: 0 for equal ones, 1 for disjoint ones."""
    shares = [np.histogram(values, 20, (0, 1))[0] / len(values) for values in (one, other)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def test_what_is_kept_is_distributed_as_gold() -> None:
    gold, scores = degrees(0, 0.5, 800), degrees(1, 0.3, 20_000)
    keep = by_density(scores, gold, np.random.default_rng(2))
    assert distance(scores, gold) > 0.5
    assert distance(scores[keep], gold) < 0.75 * distance(scores, gold)
    assert 100 < keep.sum() < 20_000
    assert keep.tolist() == by_density(scores, gold, np.random.default_rng(2)).tolist()
    assert keep.tolist() != by_density(scores, gold, np.random.default_rng(3)).tolist()


def test_retention_is_a_probability_and_1_where_gold_is_denser() -> None:
    gold, scores = degrees(0, 0.6, 800), degrees(1, 0.4, 5000)
    q = retention(scores, gold)
    assert q.min() >= 0
    assert q.max() == 1
    assert (q[scores > 0.55] == 1).all()
    assert (q[scores < 0.3] < 0.3).all()
    assert (np.diff(q[np.argsort(scores)][500:-500]) >= -1e-3).all()  # the ratio of two such bells rises


def test_identical_distributions_lose_nothing() -> None:
    values = degrees(0, 0.5, 500)
    assert (retention(values, values) == 1).all()
    assert by_density(values, values, np.random.default_rng(0)).all()


def test_scores_without_a_density_are_refused() -> None:
    with pytest.raises(TrainingError, match=r"the teacher's scores of random pairs are all 0\.500000"):
        by_density(np.full(50, 0.5), degrees(0, 0.5, 50), np.random.default_rng(0))


@pytest.mark.parametrize(("positive", "negative"), [(2, 1), (1, 3), (5, 4)])
def test_classes_keep_all_positives_and_gold_s_ratio(positive: int, negative: int) -> None:
    scores = np.random.default_rng(0).beta(0.3, 3, 4000)
    gold = np.repeat([1.0, 0.0], [30 * positive, 30 * negative])
    keep = by_class(scores, gold, np.random.default_rng(1))
    assert keep[scores >= 0.5].all()
    positives, negatives = (scores >= 0.5).sum(), (keep & (scores < 0.5)).sum()
    assert positives > 50
    assert abs(negatives - positives * negative / positive) <= 0.5
    assert keep.tolist() == by_class(scores, gold, np.random.default_rng(1)).tolist()
    assert keep.tolist() != by_class(scores, gold, np.random.default_rng(2)).tolist()


def test_too_few_negatives_are_all_kept() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.1])
    assert by_class(scores, np.array([1.0, 0.0, 0.0]), np.random.default_rng(0)).all()
