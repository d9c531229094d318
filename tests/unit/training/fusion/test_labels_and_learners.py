"""Labels, and models fitted to them: on synthetic pools whose first feature is what judges saw."""

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

MODELS: dict[str, Learner] = {
    "ridge": partial(fit_ridge, alpha=1.0),
    "lambdamart": partial(fit_lambdamart, settings=LambdaMARTSettings(trees=30), seed=0),
    "ranknet": partial(fit_ranknet, settings=RankNetSettings(steps=60, learning_rate=0.05), seed=0),
    "ranknet, linear": partial(fit_ranknet, settings=RankNetSettings(hidden_units=0, steps=60, learning_rate=0.05), seed=0),
}

JUDGED = pd.DataFrame([("1", "a", 2), ("1", "b", 0), ("2", "a", 1), ("3", "z", 2)], columns=["qid", "docno", "rel"])
PAIRS = pd.DataFrame([(qid, docno) for qid in "123" for docno in "abcdefgh"], columns=["qid", "docno"])


def of(labels: np.ndarray, qid: str) -> dict[str, float]:
    rows = PAIRS.assign(label=labels)
    return {row.docno: row.label for row in rows[rows["qid"] == qid].itertuples() if not np.isnan(row.label)}


def test_labels_of_one_and_two_qrels_by_hand() -> None:
    assert of(label_pairs(PAIRS, [JUDGED], FitSettings(unjudged_per_topic=0)), "1") == {"a": 2.0, "b": 0.0}
    labels = label_pairs(PAIRS, [JUDGED], FitSettings(unjudged_per_topic=3))
    first, second = of(labels, "1"), of(labels, "2")
    assert (first.pop("a"), first.pop("b"), second.pop("a")) == (2.0, 0.0, 1.0)
    assert [len(part) for part in (first, second)] == [3, 3]
    assert {*first.values(), *second.values()} == {0.0}
    assert of(labels, "3") == {}  # its judged document is in no pool
    assert of(label_pairs(PAIRS, [JUDGED], FitSettings(unjudged_per_topic=30)), "2") == {
        "a": 1.0,
        **dict.fromkeys("bcdefgh", 0.0),
    }
    assert of(label_pairs(PAIRS, [JUDGED], FitSettings(unjudged_per_topic=3, seed=1)), "1") != of(labels, "1")
    quality = pd.DataFrame([("1", "a", 1), ("1", "c", 2), ("2", "a", 2)], columns=["qid", "docno", "rel"])
    labels = label_pairs(PAIRS, [JUDGED, quality], FitSettings(unjudged_per_topic=0, second_qrels_weight=0.25))
    assert of(labels, "1") == {"a": 0.75 * 2 + 0.25 * 1}  # b and c are judged by one alone
    assert of(labels, "2") == {"a": 0.75 * 1 + 0.25 * 2}
    mixture = label_pairs(PAIRS, [JUDGED, quality], FitSettings(unjudged_per_topic=9, second_qrels_weight=0.25))
    assert of(mixture, "1") == {"a": 1.75, **dict.fromkeys("defgh", 0.0)}


@given(st.randoms())
def test_sampling_depends_only_on_topic_and_pool(random: Any) -> None:
    order = random.sample(range(len(PAIRS)), len(PAIRS))
    labels = label_pairs(PAIRS, [JUDGED], FitSettings(unjudged_per_topic=3))
    np.testing.assert_array_equal(
        label_pairs(PAIRS.iloc[order].reset_index(drop=True), [JUDGED], FitSettings(unjudged_per_topic=3)), labels[order]
    )
    first = PAIRS["qid"] == "1"
    np.testing.assert_array_equal(label_pairs(PAIRS[first], [JUDGED], FitSettings(unjudged_per_topic=3)), labels[first])


def synthetic() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Thirty topics of thirty documents; judgments follow the first of four features, with noise."""
    rng, topics, documents = np.random.default_rng(0), 30, 30
    pairs = [(str(topic), f"d{i:02}") for topic in range(topics) for i in range(documents)]
    table = pd.DataFrame(pairs, columns=["qid", "docno"])
    table[["right", "noise", "more", "most"]] = rng.normal(size=(len(table), 4))
    noisy = table["right"] + rng.normal(scale=0.5, size=len(table))
    return table, table[["qid", "docno"]].assign(rel=np.digitize(noisy, [0.5, 1.5]))


def ndcg(scores: pd.DataFrame, judged: pd.DataFrame) -> float:
    both = scores.merge(judged, on=["qid", "docno"]).groupby("qid")
    return float(np.mean([ndcg_score([topic["rel"]], [topic["score"]], k=5) for _, topic in both]))


TABLE, JUDGMENTS = synthetic()
FOLDS = {str(topic): topic % 5 for topic in range(30)}


def labelled(features: list[list[float]], labels: list[float], topics: list[int]) -> TrainingSet:
    return TrainingSet(["x", "y"], np.array(features, dtype=float), np.array(labels, dtype=float), np.array(topics))


def test_learners_by_hand() -> None:
    table = pd.DataFrame([("1", "a", -1.0), ("1", "b", 1.0), ("2", "a", 1.0), ("2", "b", -1.0)], columns=["qid", "docno", "x"])
    judged = table[["qid", "docno"]].assign(rel=[0, 2, 2, 0])
    ridge = fit_ridge(LabelledPool(table, [judged], FitSettings()).training_set(), 4.0)
    assert ridge.intercept == pytest.approx(1.0)
    assert ridge.coefficients == {"x": pytest.approx(4 / (4 + 4.0))}  # Σ x (y - mean) / (Σ x² + alpha)
    np.testing.assert_allclose(ridge.score(np.array([[2.0], [-1.0]])), [2.0, 0.5])

    # RankNet. The pairs are (0, 1), (0, 2), (1, 2); documents of other topics are not compared. The gradient of -log p, with
    # p = 1 / (1 + exp(w·(x_j - x_i))), is (p - 1) (x_i - x_j); the first step of Adam is its rate against the gradient's sign.
    three = labelled([[1, 0], [0, 0], [0, 1], [9, 9]], [2, 1, 0, 1], [0, 0, 0, 1])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        before = torch.nn.Linear(2, 1, bias=False).weight.detach().double().numpy()[0]
    state = torch.get_rng_state()
    after = fit_ranknet(three, RankNetSettings(hidden_units=0, steps=1, learning_rate=0.1, weight_decay=0.0), 3).score(
        np.eye(2)
    )
    assert torch.equal(torch.get_rng_state(), state)  # nobody else's random numbers are others now
    np.testing.assert_allclose(after - before, [0.1, -0.1], atol=1e-6)
    with pytest.raises(TrainingError, match="no topic has two documents with different labels"):
        fit_ranknet(labelled([[1, 0], [0, 1]], [2, 1], [0, 1]), RankNetSettings(), 0)

    # One tree of two leaves, grown from equal scores, splits halfway between better and worse documents.
    features, grades = [[1.0, 0.0]] * 5 + [[-1.0, 0.0]] * 5, [1.5] * 5 + [0.0] * 5
    settings = LambdaMARTSettings(trees=1, leaves=2, min_leaf_documents=5, learning_rate=1.0)
    ridge = fit_lambdamart(labelled(features * 2, grades * 2, [0] * 10 + [1] * 10), settings, 0)
    high, low, middle = ridge.score(np.array([[1.0, 7.0], [-1.0, -7.0], [0.4, 0.0]]))
    assert high > 0 > low
    assert middle == high


@pytest.mark.parametrize("name", MODELS)
def test_learners_are_deterministic_and_use_mixed_labels(name: str) -> None:
    training_set = LabelledPool(TABLE, [JUDGMENTS], FitSettings()).training_set()
    scores = MODELS[name](training_set).scores(training_set.features)
    np.testing.assert_array_equal(MODELS[name](training_set).scores(training_set.features), scores)
    assert len(set(scores.round(9))) > 30
    if name == "lambdamart":  # the documents of a topic need not stand together
        mixed = np.argsort(np.arange(len(training_set.labels)) % 30, kind="stable")  # the first of each topic, the second …
        mixture = TrainingSet(
            training_set.feature_names, training_set.features[mixed], training_set.labels[mixed], training_set.topics[mixed]
        )
        np.testing.assert_array_equal(MODELS[name](mixture).scores(training_set.features), scores)

    halves = JUDGMENTS.assign(rel=0.5 * (TABLE["right"] > 0))  # half a point is one more than none
    fitting = LabelledPool(TABLE, [halves], FitSettings())
    means = fitting.score(MODELS[name](fitting.training_set()))["score"].groupby(fitting.labels).mean()
    assert means[0.5] > means[0.0] + 0.1


def test_learners_recover_the_label_weights() -> None:
    fitting, model = LabelledPool(TABLE, [JUDGMENTS], FitSettings()), partial(fit_ridge, alpha=1.0)
    weights = model(fitting.training_set())
    assert weights.coefficients["right"] > 10 * max(abs(weights.coefficients[name]) for name in ("noise", "more", "most"))
    coefficients = np.array([model(sample).coefficients["right"] for sample in fitting.bootstrap(50)])
    assert coefficients.std() > 0
    assert np.percentile(coefficients, 2.5) < weights.coefficients["right"] < np.percentile(coefficients, 97.5)
    assert [model(sample).coefficients for sample in fitting.bootstrap(3)] == [
        model(sample).coefficients for sample in fitting.bootstrap(3)
    ]
    with pytest.raises(TrainingError, match="1 topics with judged documents"):
        LabelledPool(TABLE, [JUDGMENTS[JUDGMENTS["qid"] == "3"]], FitSettings())


@pytest.mark.parametrize("name", MODELS)
def test_cross_validation_does_not_leak_labels(name: str) -> None:
    fitting = LabelledPool(TABLE, [JUDGMENTS], FitSettings())
    scores = fitting.cross_validated_scores(MODELS[name], FOLDS)
    fitted = ndcg(scores, JUDGMENTS)
    names = ["right", "noise", "more", "most"]
    either_way = [ndcg(TABLE.assign(score=sign * TABLE[feature]), JUDGMENTS) for feature in names for sign in (1, -1)]
    permuted = []
    for seed in range(5):
        fitting.labels = np.random.default_rng(seed).permutation(fitting.labels)
        permuted.append(ndcg(fitting.cross_validated_scores(MODELS[name], FOLDS), JUDGMENTS))
    assert fitted > 0.8
    assert np.mean(permuted) < np.mean(either_way) + 0.05 < fitted - 0.3

    in_fold = JUDGMENTS["qid"].map(FOLDS) == 2
    turned = JUDGMENTS.assign(rel=JUDGMENTS["rel"].where(~in_fold, 2 - JUDGMENTS["rel"]))
    inverted = LabelledPool(TABLE, [turned], FitSettings()).cross_validated_scores(MODELS[name], FOLDS)
    same = scores["score"].to_numpy() == inverted["score"].to_numpy()
    assert same[in_fold].all()
    assert same[~in_fold].mean() < 0.2
