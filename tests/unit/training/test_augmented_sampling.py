"""Which pairs are sampled: what holds for each strategy, and that BM25 and the cosine find what brute force finds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from rank_bm25 import BM25Okapi

from submission.text.normalise import normalise
from training.augmented.sampling import Sentences, bm25, random, semantic, thinned

K = 3
WORDS = [f"{first}{second}ord" for first in "bcdfg" for second in "aeiou"]
STRATEGIES: dict[str, Callable[[Sentences], np.ndarray]] = {
    "random": lambda sentences: random(sentences, 100, np.random.default_rng(5)),
    "bm25": lambda sentences: bm25(sentences, K),
    "semantic": lambda sentences: semantic(sentences, vectors(), K),
}


@pytest.fixture
def sentences() -> Sentences:
    """60 sentences of 30 gold pairs, in three topics."""
    rng = np.random.default_rng(3)
    texts = [f"{' '.join(rng.choice(WORDS, 5))} {'abcdefghij'[n % 10] * 4}{'abcdefghij'[n // 10] * 3}" for n in range(60)]
    topics = [f"topic {number % 3}" for number in range(30)]
    return Sentences.of(pd.DataFrame({"first": texts[:30], "second": texts[30:], "topic": topics}))


def vectors() -> np.ndarray:
    """Few values, so that cosines are equal often."""
    return np.random.default_rng(4).integers(1, 3, (60, 3)).astype(np.float64)


def brute(sentences: Sentences, score: Callable[[int, int], float], least: float) -> set[tuple[int, int]]:
    """Each sentence with its K best, by definition."""
    gold, found = {tuple(pair) for pair in sentences.gold.tolist()}, set()
    for one in range(60):
        others = [n for n in range(60) if n != one and (min(one, n), max(one, n)) not in gold and score(one, n) > least]
        found |= {(min(one, n), max(one, n)) for n in sorted(others, key=lambda n: (-score(one, n), n))[:K]}
    return found


def test_sentences_are_numbered_as_they_occur() -> None:
    pairs = pd.DataFrame({"first": ["b", "a", "c"], "second": ["a", "d", "b"], "topic": ["x", "x", "y"]})
    sentences = Sentences.of(pairs)
    assert sentences.texts == ["b", "a", "c", "d"]
    assert sentences.gold.tolist() == [[0, 1], [1, 3], [0, 2]]
    assert [own.tolist() for own in map(np.sort, sentences.partners())] == [[0, 1, 2], [0, 1, 3], [0, 2], [1, 3]]
    assert sentences.pairs(np.array([[0, 3], [1, 2]])).to_numpy().tolist() == [["b", "d"], ["a", "c"]]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_pair_with_itself_of_gold_or_twice(sentences: Sentences, strategy: str) -> None:
    sample = STRATEGIES[strategy](sentences)
    pairs = [tuple(pair) for pair in sample.tolist()]
    assert len(pairs) > 60
    assert all(lower < higher for lower, higher in pairs)
    assert len({*pairs}) == len(pairs)
    assert not {*pairs} & {tuple(pair) for pair in sentences.gold.tolist()}
    assert sorted(pairs) == pairs
    assert STRATEGIES[strategy](sentences).tolist() == sample.tolist()


@pytest.mark.parametrize("strategy", ["bm25", "semantic"])
def test_a_sentence_asks_for_k_at_most(sentences: Sentences, strategy: str) -> None:
    assert len(STRATEGIES[strategy](sentences)) <= 60 * K
    nearest = bm25(sentences, 1) if strategy == "bm25" else semantic(sentences, vectors(), 1)
    assert len(nearest) <= 60
    assert {*nearest.ravel().tolist()} == {*range(60)}  # each has one at least: it asked


def test_bm25_is_that_of_brute_force(sentences: Sentences) -> None:
    words = [normalise(text).split() for text in sentences.texts]
    order = sorted(range(60), key=lambda number: normalise(sentences.texts[number]))
    okapi = BM25Okapi([words[number] for number in order])
    scores = np.empty((60, 60))
    scores[:, order] = [okapi.get_scores(own) for own in words]
    expected = brute(sentences, lambda one, other: scores[one, other], 0.0)
    assert {tuple(pair) for pair in bm25(sentences, K).tolist()} == expected


def test_bm25_finds_nothing_where_no_word_is_shared() -> None:
    pairs = pd.DataFrame({"first": ["lions roar", "ships sail"], "second": ["rivers flow", "bells ring"], "topic": ["", ""]})
    assert bm25(Sentences.of(pairs), K).tolist() == []


def test_the_cosine_is_that_of_brute_force(sentences: Sentences) -> None:
    unit = vectors() / np.linalg.norm(vectors(), axis=1, keepdims=True)
    cosines = unit @ unit.T
    assert len(np.unique(cosines.round(12))) < 100  # ties are decided by number
    found = {tuple(pair) for pair in semantic(sentences, vectors(), K).tolist()}
    assert found == brute(sentences, lambda one, other: cosines[one, other], -2.0)


def test_the_length_of_a_vector_is_nothing(sentences: Sentences) -> None:
    longer = vectors() * 2.0 ** np.random.default_rng(1).integers(0, 5, (60, 1))
    assert semantic(sentences, longer, K).tolist() == semantic(sentences, vectors(), K).tolist()


def test_random_pairs_are_of_one_topic_and_all_of_them_where_all_are_asked_for(sentences: Sentences) -> None:
    everything = random(sentences, 10**6, np.random.default_rng(0))
    topics = sentences.topics[everything]
    assert (topics[:, 0] == topics[:, 1]).all()
    assert len(everything) == 3 * 190 - 30  # three topics of 20 sentences, less gold
    some = [random(sentences, 100, np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert [len(sample) for sample in some] == [100] * 3
    assert some[0].tolist() == some[1].tolist() != some[2].tolist()
    assert {*map(tuple, some[0].tolist())} < {*map(tuple, everything.tolist())}


def test_random_pairs_are_drawn_alike(sentences: Sentences) -> None:
    counts = np.zeros((60, 60))
    for seed in range(300):
        sample = random(sentences, 54, np.random.default_rng(seed))  # a tenth of all
        counts[sample[:, 0], sample[:, 1]] += 1
    drawn = counts[counts > 0]
    assert len(drawn) == 540
    assert drawn.mean() == 30
    assert drawn.std() == pytest.approx((300 * 0.1 * 0.9) ** 0.5, rel=0.15)  # as of a binomial


def test_thinning_keeps_so_many_in_order() -> None:
    sample = np.stack([np.arange(50), np.arange(50) + 1], axis=1)
    kept = thinned(sample, 20, np.random.default_rng(0))
    assert len(kept) == 20
    assert (np.diff(kept[:, 0]) > 0).all()
    assert thinned(sample, 70, np.random.default_rng(0)).tolist() == sample.tolist()
