"""Test labels and learners on synthetic pools whose first feature determines the judgments."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from submission.errors import TrainingError
from training.fusion.labels import LabelledPool, Learner, TrainingSet, label_pairs
from training.fusion.learners import fit_lambdamart, fit_ranknet, fit_ridge
from training.fusion.recipe import FitSettings, LambdaMARTSettings, RankNetSettings

LEARNERS: dict[str, Learner] = {
    "ridge": partial(fit_ridge, alpha=1.0),
    "lambdamart": partial(fit_lambdamart, settings=LambdaMARTSettings(trees=30), seed=0),
    "ranknet": partial(fit_ranknet, settings=RankNetSettings(steps=60, learning_rate=0.05), seed=0),
    "ranknet, linear": partial(fit_ranknet, settings=RankNetSettings(hidden_units=0, steps=60, learning_rate=0.05), seed=0),
}

JUDGED = pd.DataFrame([("1", "a", 2), ("1", "b", 0), ("2", "a", 1), ("3", "z", 2)], columns=["qid", "docno", "rel"])
PAIRS = pd.DataFrame([(qid, docno) for qid in "123" for docno in "abcdefgh"], columns=["qid", "docno"])


def topic_labels(labels: np.ndarray, qid: str) -> dict[str, float]:
    rows = PAIRS.assign(label=labels)
    return {row.docno: row.label for row in rows[rows["qid"] == qid].itertuples() if not np.isnan(row.label)}


def test_label_pairs_matches_hand_computed_labels() -> None:
    assert topic_labels(label_pairs(PAIRS, [JUDGED], FitSettings(unjudged_per_topic=0)), "1") == {"a": 2.0, "b": 0.0}
    labels = label_pairs(PAIRS, [JUDGED], FitSettings(unjudged_per_topic=3))
    first, second = topic_labels(labels, "1"), topic_labels(labels, "2")
    assert (first.pop("a"), first.pop("b"), second.pop("a")) == (2.0, 0.0, 1.0)
    assert (len(first), len(second)) == (3, 3)
    assert {*first.values(), *second.values()} == {0.0}
    assert topic_labels(labels, "3") == {}  # its judged document is not in the pool
    assert topic_labels(label_pairs(PAIRS, [JUDGED], FitSettings(unjudged_per_topic=30)), "2") == {
        "a": 1.0,
        **dict.fromkeys("bcdefgh", 0.0),
    }
    assert topic_labels(label_pairs(PAIRS, [JUDGED], FitSettings(unjudged_per_topic=3, seed=1)), "1") != topic_labels(
        labels, "1"
    )
    quality = pd.DataFrame([("1", "a", 1), ("1", "c", 2), ("2", "a", 2)], columns=["qid", "docno", "rel"])
    labels = label_pairs(PAIRS, [JUDGED, quality], FitSettings(unjudged_per_topic=0, second_qrels_weight=0.25))
    assert topic_labels(labels, "1") == {"a": 0.75 * 2 + 0.25 * 1}  # only one file judges b and c
    assert topic_labels(labels, "2") == {"a": 0.75 * 1 + 0.25 * 2}
    mixed_labels = label_pairs(PAIRS, [JUDGED, quality], FitSettings(unjudged_per_topic=9, second_qrels_weight=0.25))
    assert topic_labels(mixed_labels, "1") == {"a": 1.75, **dict.fromkeys("defgh", 0.0)}


@given(st.randoms())
def test_unjudged_sample_depends_on_topic_and_pool_only(random: Any) -> None:
    order = random.sample(range(len(PAIRS)), len(PAIRS))
    labels = label_pairs(PAIRS, [JUDGED], FitSettings(unjudged_per_topic=3))
    np.testing.assert_array_equal(
        label_pairs(PAIRS.iloc[order].reset_index(drop=True), [JUDGED], FitSettings(unjudged_per_topic=3)), labels[order]
    )
    first = PAIRS["qid"] == "1"
    np.testing.assert_array_equal(label_pairs(PAIRS[first], [JUDGED], FitSettings(unjudged_per_topic=3)), labels[first])


def synthetic() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Build thirty topics of thirty documents with four features; the first determines noisy judgments."""
    rng, topics, documents = np.random.default_rng(0), 30, 30
    pairs = [(str(topic), f"d{index:02}") for topic in range(topics) for index in range(documents)]
    table = pd.DataFrame(pairs, columns=["qid", "docno"])
    table[["relevance", "noise 1", "noise 2", "noise 3"]] = rng.normal(size=(len(table), 4))
    grades = table["relevance"] + rng.normal(scale=0.5, size=len(table))
    return table, table[["qid", "docno"]].assign(rel=np.digitize(grades, [0.5, 1.5]))


def ndcg(scores: pd.DataFrame, judged: pd.DataFrame) -> float:
    both = scores.merge(judged, on=["qid", "docno"]).groupby("qid")
    return float(np.mean([ndcg_score([topic["rel"]], [topic["score"]], k=5) for _, topic in both]))


TABLE, JUDGMENTS = synthetic()
FOLDS = {str(topic): topic % 5 for topic in range(30)}


def training_set(features: list[list[float]], labels: list[float], topics: list[int]) -> TrainingSet:
    return TrainingSet(["x", "y"], np.array(features, dtype=float), np.array(labels, dtype=float), np.array(topics))


def test_learners_match_hand_computed_values() -> None:
    table = pd.DataFrame([("1", "a", -1.0), ("1", "b", 1.0), ("2", "a", 1.0), ("2", "b", -1.0)], columns=["qid", "docno", "x"])
    judged = table[["qid", "docno"]].assign(rel=[0, 2, 2, 0])
    ridge = fit_ridge(LabelledPool(table, [judged], FitSettings()).build_training_set(), 4.0)
    assert ridge.intercept == pytest.approx(1.0)
    assert ridge.coefficients == {"x": pytest.approx(4 / (4 + 4.0))}  # Σ x (y - mean) / (Σ x² + alpha)
    np.testing.assert_allclose(ridge.score(np.array([[2.0], [-1.0]])), [2.0, 0.5])

    # RankNet. The pairs are (0, 1), (0, 2) and (1, 2), all of topic 0. The gradient of -log p, with
    # p = 1 / (1 + exp(w·(x_j - x_i))), is (p - 1) (x_i - x_j); Adam's first step has the size of its learning rate.
    three = training_set([[1, 0], [0, 0], [0, 1], [9, 9]], [2, 1, 0, 1], [0, 0, 0, 1])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        before = torch.nn.Linear(2, 1, bias=False).weight.detach().double().numpy()[0]
    state = torch.get_rng_state()
    after = fit_ranknet(three, RankNetSettings(hidden_units=0, steps=1, learning_rate=0.1, weight_decay=0.0), 3).score(
        np.eye(2)
    )
    assert torch.equal(torch.get_rng_state(), state)  # the global random state is restored
    np.testing.assert_allclose(after - before, [0.1, -0.1], atol=1e-6)
    with pytest.raises(TrainingError, match="no topic has two documents with different labels"):
        fit_ranknet(training_set([[1, 0], [0, 1]], [2, 1], [0, 1]), RankNetSettings(), 0)

    # LambdaMART. One tree of two leaves splits halfway between the features of better and worse documents.
    features, grades = [[1.0, 0.0]] * 5 + [[-1.0, 0.0]] * 5, [1.5] * 5 + [0.0] * 5
    settings = LambdaMARTSettings(trees=1, leaves=2, min_leaf_documents=5, learning_rate=1.0)
    tree = fit_lambdamart(training_set(features * 2, grades * 2, [0] * 10 + [1] * 10), settings, 0)
    high, low, middle = tree.score(np.array([[1.0, 7.0], [-1.0, -7.0], [0.4, 0.0]]))
    assert high > 0 > low
    assert middle == high


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_are_deterministic_and_use_fractional_labels(name: str) -> None:
    examples = LabelledPool(TABLE, [JUDGMENTS], FitSettings()).build_training_set()
    scores = LEARNERS[name](examples).score(examples.features)
    np.testing.assert_array_equal(LEARNERS[name](examples).score(examples.features), scores)
    assert len(set(scores.round(9))) > 30
    if name == "lambdamart":  # rows need not be grouped by topic
        mixed = np.argsort(np.arange(len(examples.labels)) % 30, kind="stable")
        arrays = (array[mixed] for array in (examples.features, examples.labels, examples.topics))
        ungrouped = TrainingSet(examples.feature_names, *arrays)
        np.testing.assert_array_equal(LEARNERS[name](ungrouped).score(examples.features), scores)

    halves = JUDGMENTS.assign(rel=0.5 * (TABLE["relevance"] > 0))  # fractional grades are not rounded down
    pool = LabelledPool(TABLE, [halves], FitSettings())
    means = pool.score(LEARNERS[name](pool.build_training_set()))["score"].groupby(pool.labels).mean()
    assert means[0.5] > means[0.0] + 0.1


def test_ridge_weights_the_relevant_feature_highest() -> None:
    pool, learner = LabelledPool(TABLE, [JUDGMENTS], FitSettings()), partial(fit_ridge, alpha=1.0)
    weights = learner(pool.build_training_set())
    assert weights.coefficients["relevance"] > 10 * max(
        abs(weights.coefficients[name]) for name in ("noise 1", "noise 2", "noise 3")
    )
    samples = np.array([learner(sample).coefficients["relevance"] for sample in pool.bootstrap(50)])
    assert samples.std() > 0
    assert np.percentile(samples, 2.5) < weights.coefficients["relevance"] < np.percentile(samples, 97.5)
    first, repeated = ([learner(sample).coefficients for sample in pool.bootstrap(3)] for _ in range(2))
    assert first == repeated
    with pytest.raises(TrainingError, match="1 topic with judged documents"):
        LabelledPool(TABLE, [JUDGMENTS[JUDGMENTS["qid"] == "3"]], FitSettings())


@pytest.mark.parametrize("name", LEARNERS)
def test_cross_validation_learns_nothing_from_permuted_labels(name: str) -> None:
    pool = LabelledPool(TABLE, [JUDGMENTS], FitSettings())
    scores = pool.cross_validated_scores(LEARNERS[name], FOLDS)
    fitted = ndcg(scores, JUDGMENTS)
    names = ["relevance", "noise 1", "noise 2", "noise 3"]
    single_features = [ndcg(TABLE.assign(score=sign * TABLE[feature]), JUDGMENTS) for feature in names for sign in (1, -1)]
    permuted = []
    for seed in range(5):
        pool.labels = np.random.default_rng(seed).permutation(pool.labels)
        permuted.append(ndcg(pool.cross_validated_scores(LEARNERS[name], FOLDS), JUDGMENTS))
    assert fitted > 0.8
    assert np.mean(permuted) < np.mean(single_features) + 0.05 < fitted - 0.3

    in_fold = JUDGMENTS["qid"].map(FOLDS) == 2
    inverted = JUDGMENTS.assign(rel=JUDGMENTS["rel"].where(~in_fold, 2 - JUDGMENTS["rel"]))
    changed = LabelledPool(TABLE, [inverted], FitSettings()).cross_validated_scores(LEARNERS[name], FOLDS)
    is_same = scores["score"].to_numpy() == changed["score"].to_numpy()
    assert is_same[in_fold].all()
    assert is_same[~in_fold].mean() < 0.2
