"""Tests of pair sampling: BM25 and cosine against brute force, random pairs, and KDE against gold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from rank_bm25 import BM25Okapi

from submission.errors import TrainingError
from submission.text.normalisation import normalise
from training.sbert.pairs import subsample
from training.studies.augmented_sbert.sampling import (
    SentencePool,
    class_ratio_mask,
    density_mask,
    pair_by_bm25,
    pair_by_cosine,
    retention_probabilities,
    sample_random_pairs,
)

rng = np.random.default_rng


@pytest.fixture
def sentences() -> SentencePool:
    """Return 60 sentences of 30 gold pairs, in three topics."""
    words = [f"{first}{second}ord" for first in "bcdfg" for second in "aeiou"]
    texts = [f"{' '.join(rng(n).choice(words, 5))} {'abcdefghij'[n % 10] * 4}{'abcdefghij'[n // 10] * 3}" for n in range(60)]
    topics = [f"topic {n % 3}" for n in range(30)]
    return SentencePool.from_pairs(pd.DataFrame({"first": texts[:30], "second": texts[30:], "topic": topics}))


def top_k_pairs(sentences: SentencePool, score: Callable[[int, int], float], min_score: float, k: int) -> list[list[int]]:
    """Pair each sentence with its top k partners by brute force, without self pairs, gold pairs and duplicates."""
    gold, pairs = {tuple(pair) for pair in sentences.gold.tolist()}, set()
    for i in range(60):
        partners = [n for n in range(60) if n != i and (min(i, n), max(i, n)) not in gold and score(i, n) > min_score]
        pairs |= {(min(i, n), max(i, n)) for n in sorted(partners, key=lambda n: (-score(i, n), n))[:k]}
    assert {index for pair in pairs for index in pair} == {*range(60)}
    return [list(pair) for pair in sorted(pairs)]


def test_sentences_are_indexed_in_order_of_occurrence() -> None:
    pairs = pd.DataFrame({"first": ["b", "a", "c"], "second": ["a", "d", "b"], "topic": ["x", "x", "y"]})
    sentences = SentencePool.from_pairs(pairs)
    assert sentences.texts == ["b", "a", "c", "d"]
    assert sentences.gold.tolist() == [[0, 1], [1, 3], [0, 2]]
    assert [sorted(row.tolist()) for row in sentences.excluded_partners()] == [[0, 1, 2], [0, 1, 3], [0, 2], [1, 3]]
    assert sentences.to_frame(np.array([[0, 3], [1, 2]])).to_numpy().tolist() == [["b", "d"], ["a", "c"]]


@pytest.mark.parametrize("k", [1, 3])
def test_bm25_pairs_match_brute_force(sentences: SentencePool, k: int) -> None:
    words = [normalise(text).split() for text in sentences.texts]
    order = sorted(range(60), key=lambda index: normalise(sentences.texts[index]))
    okapi, scores = BM25Okapi([words[index] for index in order]), np.empty((60, 60))
    scores[:, order] = [okapi.get_scores(query) for query in words]
    assert pair_by_bm25(sentences, k).tolist() == top_k_pairs(sentences, lambda i, j: scores[i, j], 0.0, k)
    pairs = pd.DataFrame({"first": ["lions roar", "ships sail"], "second": ["rivers flow", "bells ring"], "topic": ["", ""]})
    assert pair_by_bm25(SentencePool.from_pairs(pairs), k).tolist() == []  # no common term


@pytest.mark.parametrize("k", [1, 3])
def test_semantic_pairs_match_brute_force(sentences: SentencePool, k: int) -> None:
    vectors = rng(4).integers(1, 3, (60, 3)).astype(np.float64)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    assert len(np.unique(cosines.round(12))) < 100  # ties are broken by index
    expected = top_k_pairs(sentences, lambda i, j: cosines[i, j], -2.0, k)
    assert pair_by_cosine(sentences, vectors, k).tolist() == expected
    longer = vectors * 2.0 ** rng(1).integers(0, 5, (60, 1))
    assert pair_by_cosine(sentences, longer, k).tolist() == expected


def test_random_pairs_are_all_pairs_within_topics(sentences: SentencePool) -> None:
    pairs = sample_random_pairs(sentences, 10**6, rng(0)).tolist()
    gold, topics = sentences.gold.tolist(), sentences.topics
    assert pairs == [[i, j] for i in range(60) for j in range(i + 1, 60) if topics[i] == topics[j] and [i, j] not in gold]


def test_random_pairs_are_uniform(sentences: SentencePool) -> None:
    samples = [sample_random_pairs(sentences, 54, rng(seed)).tolist() for seed in range(300)]  # a tenth of all
    assert samples[0] == sample_random_pairs(sentences, 54, rng(0)).tolist() == sorted(samples[0])
    counts = np.zeros((60, 60))
    for sample in samples:
        counts[tuple(np.transpose(sample))] += 1
    frequencies = counts[counts > 0]
    assert (len(frequencies), frequencies.mean()) == (540, 30)
    assert frequencies.std() == pytest.approx((300 * 0.1 * 0.9) ** 0.5, rel=0.15)  # that of a binomial distribution


def test_subsample_keeps_the_order() -> None:
    pairs = np.arange(200).reshape(100, 2)
    subset = subsample(pairs, 20, rng(0)).tolist()
    assert len(subset) == 20
    assert subset == [pair for pair in pairs.tolist() if pair in subset]
    assert subsample(pairs, 700, rng(0)).tolist() == pairs.tolist()


def graded_labels(seed: int, mean: float, n: int) -> np.ndarray:
    return np.clip(rng(seed).normal(mean, 0.12, n), 0, 1)


def histogram_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Return half the sum of the absolute differences of two histograms: 0 if equal, 1 if disjoint."""
    shares = [np.histogram(values, 20, (0, 1))[0] / len(values) for values in (first, second)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def test_density_mask_approximates_the_gold_distribution() -> None:
    gold, scores = graded_labels(0, 0.5, 800), graded_labels(1, 0.3, 20_000)
    mask = density_mask(scores, gold, rng(2))
    assert histogram_distance(scores, gold) > 0.5
    assert histogram_distance(scores[mask], gold) < 0.75 * histogram_distance(scores, gold)
    assert 100 < mask.sum() < 20_000
    assert mask.tolist() == density_mask(scores, gold, rng(2)).tolist() != density_mask(scores, gold, rng(3)).tolist()
    with pytest.raises(TrainingError, match=r"the teacher's scores of random pairs are all 0\.500000"):
        density_mask(np.full(50, 0.5), gold, rng(0))


def test_retention_is_the_ratio_of_densities() -> None:
    gold, scores = graded_labels(0, 0.6, 800), graded_labels(1, 0.4, 5000)
    probabilities = retention_probabilities(scores, gold)
    assert (probabilities.min() >= 0, probabilities.max()) == (True, 1)
    assert (probabilities[scores > 0.55] == 1).all()
    assert (probabilities[scores < 0.3] < 0.3).all()
    assert (np.diff(probabilities[np.argsort(scores)][500:-500]) >= -1e-3).all()  # the ratio of such densities increases
    assert (retention_probabilities(gold, gold) == 1).all()  # equal distributions keep all pairs


@pytest.mark.parametrize(("positive", "negative"), [(2, 1), (1, 3), (5, 4)])
def test_class_ratio_mask_keeps_positives_and_the_gold_ratio(positive: int, negative: int) -> None:
    scores, gold = rng(0).beta(0.3, 3, 4000), np.repeat([1.0, 0.0], [30 * positive, 30 * negative])
    mask = class_ratio_mask(scores, gold, rng(1))
    positives, negatives = (scores >= 0.5).sum(), (mask & (scores < 0.5)).sum()
    assert mask[scores >= 0.5].all()
    assert positives > 50
    assert abs(negatives - positives * negative / positive) <= 0.5
    assert mask.tolist() == class_ratio_mask(scores, gold, rng(1)).tolist() != class_ratio_mask(scores, gold, rng(2)).tolist()
    few = np.array([0.9, 0.8, 0.7, 0.1])  # too few negatives: all remain
    assert class_ratio_mask(few, np.array([1.0, 0.0, 0.0]), rng(0)).all()
