"""Which pairs are sampled: BM25 and the cosine find what brute force finds, random pairs are thinned to gold's labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from rank_bm25 import BM25Okapi

from submission.errors import TrainingError
from submission.text.normalisation import normalise
from training.sbert.pairs import thinned
from training.studies.augmented_sbert.kde import class_ratio_mask, density_mask, retention_probabilities
from training.studies.augmented_sbert.sampling import SentencePool, bm25_pairs, random_pairs, semantic_pairs

WORDS = [f"{first}{second}ord" for first in "bcdfg" for second in "aeiou"]


@pytest.fixture
def sentences() -> SentencePool:
    """60 sentences of 30 gold pairs, in three topics."""
    rng = np.random.default_rng(3)
    texts = [f"{' '.join(rng.choice(WORDS, 5))} {'abcdefghij'[n % 10] * 4}{'abcdefghij'[n // 10] * 3}" for n in range(60)]
    topics = [f"topic {number % 3}" for number in range(30)]
    return SentencePool.from_pairs(pd.DataFrame({"first": texts[:30], "second": texts[30:], "topic": topics}))


def vectors() -> np.ndarray:
    """Few values, so that cosines are equal often."""
    return np.random.default_rng(4).integers(1, 3, (60, 3)).astype(np.float64)


def brute(sentences: SentencePool, score: Callable[[int, int], float], least: float, k: int) -> list[list[int]]:
    """Each sentence with its k best, by definition: none with itself, of gold, or twice."""
    gold, found = {tuple(pair) for pair in sentences.gold.tolist()}, set()
    for one in range(60):
        others = [n for n in range(60) if n != one and (min(one, n), max(one, n)) not in gold and score(one, n) > least]
        found |= {(min(one, n), max(one, n)) for n in sorted(others, key=lambda n: (-score(one, n), n))[:k]}
    assert {number for pair in found for number in pair} == {*range(60)}
    return [list(pair) for pair in sorted(found)]


def test_sentences_are_numbered_as_they_occur() -> None:
    pairs = pd.DataFrame({"first": ["b", "a", "c"], "second": ["a", "d", "b"], "topic": ["x", "x", "y"]})
    sentences = SentencePool.from_pairs(pairs)
    assert sentences.texts == ["b", "a", "c", "d"]
    assert sentences.gold.tolist() == [[0, 1], [1, 3], [0, 2]]
    assert [own.tolist() for own in map(np.sort, sentences.excluded_partners())] == [[0, 1, 2], [0, 1, 3], [0, 2], [1, 3]]
    assert sentences.to_frame(np.array([[0, 3], [1, 2]])).to_numpy().tolist() == [["b", "d"], ["a", "c"]]


def test_bm25_is_that_of_brute_force(sentences: SentencePool) -> None:
    words = [normalise(text).split() for text in sentences.texts]
    order = sorted(range(60), key=lambda number: normalise(sentences.texts[number]))
    okapi = BM25Okapi([words[number] for number in order])
    scores = np.empty((60, 60))
    scores[:, order] = [okapi.get_scores(own) for own in words]
    for k in (1, 3):
        assert bm25_pairs(sentences, k).tolist() == brute(sentences, lambda one, other: scores[one, other], 0.0, k)
    pairs = pd.DataFrame({"first": ["lions roar", "ships sail"], "second": ["rivers flow", "bells ring"], "topic": ["", ""]})
    assert bm25_pairs(SentencePool.from_pairs(pairs), 3).tolist() == []  # no word is shared


def test_the_cosine_is_that_of_brute_force_whatever_the_lengths_of_vectors(sentences: SentencePool) -> None:
    unit = vectors() / np.linalg.norm(vectors(), axis=1, keepdims=True)
    cosines = unit @ unit.T
    assert len(np.unique(cosines.round(12))) < 100  # ties are decided by number
    longer = vectors() * 2.0 ** np.random.default_rng(1).integers(0, 5, (60, 1))
    for k in (1, 3):
        expected = brute(sentences, lambda one, other: cosines[one, other], -2.0, k)
        assert semantic_pairs(sentences, vectors(), k).tolist() == semantic_pairs(sentences, longer, k).tolist() == expected


def test_random_pairs_are_new_of_one_topic_drawn_alike_and_thinned_in_order(sentences: SentencePool) -> None:
    everything = random_pairs(sentences, 10**6, np.random.default_rng(0))
    assert everything.tolist() == sorted(everything.tolist())
    assert (everything[:, 0] < everything[:, 1]).all()
    assert len({*map(tuple, everything.tolist())} - {*map(tuple, sentences.gold.tolist())}) == len(everything)
    topics = sentences.topics[everything]
    assert (topics[:, 0] == topics[:, 1]).all()
    assert len(everything) == 3 * 190 - 30  # three topics of 20 sentences, less gold
    some = [random_pairs(sentences, 100, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert [len(sample) for sample in some] == [100] * 3
    assert some[0].tolist() == some[1].tolist() != some[2].tolist()
    assert some[0].tolist() == sorted(some[0].tolist())
    assert len({*map(tuple, some[0].tolist())} & {*map(tuple, everything.tolist())}) == 100
    kept = thinned(everything, 20, np.random.default_rng(0))
    assert len(kept) == 20
    assert kept.tolist() == [pair for pair in everything.tolist() if pair in kept.tolist()]  # in order
    assert thinned(everything, 700, np.random.default_rng(0)).tolist() == everything.tolist()

    counts = np.zeros((60, 60))
    for seed in range(300):
        sample = random_pairs(sentences, 54, np.random.default_rng(seed))  # a tenth of all
        counts[sample[:, 0], sample[:, 1]] += 1
    drawn = counts[counts > 0]
    assert len(drawn) == 540
    assert drawn.mean() == 30
    assert drawn.std() == pytest.approx((300 * 0.1 * 0.9) ** 0.5, rel=0.15)  # as of a binomial


def degrees(seed: int, mean: float, number: int) -> np.ndarray:
    return np.clip(np.random.default_rng(seed).normal(mean, 0.12, number), 0, 1)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Half the sum of differences of two histograms: 0 for equal ones, 1 for disjoint ones."""
    shares = [np.histogram(values, 20, (0, 1))[0] / len(values) for values in (one, other)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def test_what_is_kept_is_distributed_as_gold_and_all_where_gold_is_as_dense() -> None:
    gold, scores = degrees(0, 0.5, 800), degrees(1, 0.3, 20_000)
    keep = density_mask(scores, gold, np.random.default_rng(2))
    assert distance(scores, gold) > 0.5
    assert distance(scores[keep], gold) < 0.75 * distance(scores, gold)
    assert 100 < keep.sum() < 20_000
    assert keep.tolist() == density_mask(scores, gold, np.random.default_rng(2)).tolist()
    assert keep.tolist() != density_mask(scores, gold, np.random.default_rng(3)).tolist()

    gold, scores = degrees(0, 0.6, 800), degrees(1, 0.4, 5000)
    q = retention_probabilities(scores, gold)
    assert q.min() >= 0
    assert q.max() == 1
    assert (q[scores > 0.55] == 1).all()
    assert (q[scores < 0.3] < 0.3).all()
    assert (np.diff(q[np.argsort(scores)][500:-500]) >= -1e-3).all()  # the ratio of two such bells rises
    values = degrees(0, 0.5, 500)  # identical distributions lose nothing
    assert (retention_probabilities(values, values) == 1).all()
    assert density_mask(values, values, np.random.default_rng(0)).all()
    with pytest.raises(TrainingError, match=r"the teacher's scores of random pairs are all 0\.500000"):
        density_mask(np.full(50, 0.5), degrees(0, 0.5, 50), np.random.default_rng(0))


@pytest.mark.parametrize(("positive", "negative"), [(2, 1), (1, 3), (5, 4)])
def test_classes_keep_all_positives_and_gold_s_ratio(positive: int, negative: int) -> None:
    scores = np.random.default_rng(0).beta(0.3, 3, 4000)
    gold = np.repeat([1.0, 0.0], [30 * positive, 30 * negative])
    keep = class_ratio_mask(scores, gold, np.random.default_rng(1))
    assert keep[scores >= 0.5].all()
    positives, negatives = (scores >= 0.5).sum(), (keep & (scores < 0.5)).sum()
    assert positives > 50
    assert abs(negatives - positives * negative / positive) <= 0.5
    assert keep.tolist() == class_ratio_mask(scores, gold, np.random.default_rng(1)).tolist()
    assert keep.tolist() != class_ratio_mask(scores, gold, np.random.default_rng(2)).tolist()
    few = np.array([0.9, 0.8, 0.7, 0.1])  # too few negatives are all kept
    assert class_ratio_mask(few, np.array([1.0, 0.0, 0.0]), np.random.default_rng(0)).all()
