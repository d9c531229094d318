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
from training.fusion.labels import Fitting, Labelled, Model, labels
from training.fusion.learners import lambdamart, ranknet, ridge
from training.fusion.recipe import Fit, LambdaMART, RankNet

MODELS: dict[str, Model] = {
    "ridge": partial(ridge, alpha=1.0),
    "lambdamart": partial(lambdamart, settings=LambdaMART(trees=30), seed=0),
    "ranknet": partial(ranknet, settings=RankNet(steps=60, learning_rate=0.05), seed=0),
    "ranknet, linear": partial(ranknet, settings=RankNet(hidden=0, steps=60, learning_rate=0.05), seed=0),
}

JUDGED = pd.DataFrame([("1", "a", 2), ("1", "b", 0), ("2", "a", 1), ("3", "z", 2)], columns=["qid", "docno", "rel"])
PAIRS = pd.DataFrame([(qid, docno) for qid in "123" for docno in "abcdefgh"], columns=["qid", "docno"])


def of(found: np.ndarray, qid: str) -> dict[str, float]:
    rows = PAIRS.assign(label=found)
    return {row.docno: row.label for row in rows[rows["qid"] == qid].itertuples() if not np.isnan(row.label)}


def test_labels_by_hand_also_of_a_mixture() -> None:
    assert of(labels(PAIRS, [JUDGED], Fit(unjudged=0)), "1") == {"a": 2.0, "b": 0.0}
    found = labels(PAIRS, [JUDGED], Fit(unjudged=3))
    first, second = of(found, "1"), of(found, "2")
    assert (first.pop("a"), first.pop("b"), second.pop("a")) == (2.0, 0.0, 1.0)
    assert [len(one) for one in (first, second)] == [3, 3]
    assert {*first.values(), *second.values()} == {0.0}
    assert of(found, "3") == {}  # its judged document is in no pool
    assert of(labels(PAIRS, [JUDGED], Fit(unjudged=30)), "2") == {"a": 1.0, **dict.fromkeys("bcdefgh", 0.0)}
    assert of(labels(PAIRS, [JUDGED], Fit(unjudged=3, seed=1)), "1") != of(found, "1")
    quality = pd.DataFrame([("1", "a", 1), ("1", "c", 2), ("2", "a", 2)], columns=["qid", "docno", "rel"])
    found = labels(PAIRS, [JUDGED, quality], Fit(unjudged=0, share=0.25))
    assert of(found, "1") == {"a": 0.75 * 2 + 0.25 * 1}  # b and c are judged by one alone
    assert of(found, "2") == {"a": 0.75 * 1 + 0.25 * 2}
    drawn = labels(PAIRS, [JUDGED, quality], Fit(unjudged=9, share=0.25))
    assert of(drawn, "1") == {"a": 1.75, **dict.fromkeys("defgh", 0.0)}


@given(st.randoms())
def test_what_is_drawn_depends_on_topic_and_pool_alone(random: Any) -> None:
    order = random.sample(range(len(PAIRS)), len(PAIRS))
    found = labels(PAIRS, [JUDGED], Fit(unjudged=3))
    np.testing.assert_array_equal(labels(PAIRS.iloc[order].reset_index(drop=True), [JUDGED], Fit(unjudged=3)), found[order])
    first = PAIRS["qid"] == "1"
    np.testing.assert_array_equal(labels(PAIRS[first], [JUDGED], Fit(unjudged=3)), found[first])


def synthetic() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Thirty topics of thirty documents; judgments follow the first of four features, with noise."""
    rng, topics, documents = np.random.default_rng(0), 30, 30
    pairs = [(str(topic), f"d{number:02}") for topic in range(topics) for number in range(documents)]
    table = pd.DataFrame(pairs, columns=["qid", "docno"])
    table[["right", "noise", "more", "most"]] = rng.normal(size=(len(table), 4))
    heard = table["right"] + rng.normal(scale=0.5, size=len(table))
    return table, table[["qid", "docno"]].assign(rel=np.digitize(heard, [0.5, 1.5]))


def ndcg(scores: pd.DataFrame, judged: pd.DataFrame) -> float:
    both = scores.merge(judged, on=["qid", "docno"]).groupby("qid")
    return float(np.mean([ndcg_score([topic["rel"]], [topic["score"]], k=5) for _, topic in both]))


TABLE, JUDGMENTS = synthetic()
FOLDS = {str(topic): topic % 5 for topic in range(30)}


def labelled(features: list[list[float]], labels: list[float], topics: list[int]) -> Labelled:
    return Labelled(["x", "y"], np.array(features, dtype=float), np.array(labels, dtype=float), np.array(topics))


def test_models_by_hand() -> None:
    table = pd.DataFrame([("1", "a", -1.0), ("1", "b", 1.0), ("2", "a", 1.0), ("2", "b", -1.0)], columns=["qid", "docno", "x"])
    judged = table[["qid", "docno"]].assign(rel=[0, 2, 2, 0])
    found = ridge(Fitting(table, [judged], Fit()).labelled(), 4.0)
    assert found.intercept == pytest.approx(1.0)
    assert found.of == {"x": pytest.approx(4 / (4 + 4.0))}  # Σ x (y - mean) / (Σ x² + alpha)
    np.testing.assert_allclose(found.scores(np.array([[2.0], [-1.0]])), [2.0, 0.5])

    # RankNet. The pairs are (0, 1), (0, 2), (1, 2); documents of other topics are not compared. The gradient of -log p, with
    # p = 1 / (1 + exp(w·(x_j - x_i))), is (p - 1) (x_i - x_j); the first step of Adam is its rate against the gradient's sign.
    three = labelled([[1, 0], [0, 0], [0, 1], [9, 9]], [2, 1, 0, 1], [0, 0, 0, 1])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        before = torch.nn.Linear(2, 1, bias=False).weight.detach().double().numpy()[0]
    state = torch.get_rng_state()
    after = ranknet(three, RankNet(hidden=0, steps=1, learning_rate=0.1, decay=0.0), 3).scores(np.eye(2))
    assert torch.equal(torch.get_rng_state(), state)  # nobody else's random numbers are others now
    np.testing.assert_allclose(after - before, [0.1, -0.1], atol=1e-6)
    with pytest.raises(TrainingError, match="no topic has two documents with different labels"):
        ranknet(labelled([[1, 0], [0, 1]], [2, 1], [0, 1]), RankNet(), 0)

    # One tree of two leaves, grown from equal scores: it divides what is better from what is worse, halfway between.
    features, grades = [[1.0, 0.0]] * 5 + [[-1.0, 0.0]] * 5, [1.5] * 5 + [0.0] * 5
    one = LambdaMART(trees=1, leaves=2, least=5, learning_rate=1.0)
    found = lambdamart(labelled(features * 2, grades * 2, [0] * 10 + [1] * 10), one, 0)
    high, low, middle = found.scores(np.array([[1.0, 7.0], [-1.0, -7.0], [0.4, 0.0]]))
    assert high > 0 > low
    assert middle == high


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_the_same_again_and_tells_the_labels_of_a_mixture_apart(name: str) -> None:
    given = Fitting(TABLE, [JUDGMENTS], Fit()).labelled()
    found = MODELS[name](given).scores(given.features)
    np.testing.assert_array_equal(MODELS[name](given).scores(given.features), found)
    assert len(set(found.round(9))) > 30
    if name == "lambdamart":  # the documents of a topic need not stand together
        mixed = np.argsort(np.arange(len(given.labels)) % 30, kind="stable")  # the first of each topic, the second …
        other = Labelled(given.names, given.features[mixed], given.labels[mixed], given.topics[mixed])
        np.testing.assert_array_equal(MODELS[name](other).scores(given.features), found)

    halves = JUDGMENTS.assign(rel=0.5 * (TABLE["right"] > 0))  # half a point is one more than none
    fitting = Fitting(TABLE, [halves], Fit())
    means = fitting.scored(MODELS[name](fitting.labelled()))["score"].groupby(fitting.labels).mean()
    assert means[0.5] > means[0.0] + 0.1


def test_what_judges_saw_is_found() -> None:
    fitting, model = Fitting(TABLE, [JUDGMENTS], Fit()), partial(ridge, alpha=1.0)
    weights = model(fitting.labelled())
    assert weights.of["right"] > 10 * max(abs(weights.of[name]) for name in ("noise", "more", "most"))
    drawn = np.array([model(one).of["right"] for one in fitting.resampled(50)])
    assert drawn.std() > 0
    assert np.percentile(drawn, 2.5) < weights.of["right"] < np.percentile(drawn, 97.5)
    assert [model(one).of for one in fitting.resampled(3)] == [model(one).of for one in fitting.resampled(3)]
    with pytest.raises(TrainingError, match="1 topics with judged documents"):
        Fitting(TABLE, [JUDGMENTS[JUDGMENTS["qid"] == "3"]], Fit())


@pytest.mark.parametrize("name", MODELS)
def test_a_topic_is_scored_without_its_fold_and_permuted_labels_fall_to_the_mean_of_the_features(name: str) -> None:
    fitting = Fitting(TABLE, [JUDGMENTS], Fit())
    found = fitting.cross_validated(MODELS[name], FOLDS)
    fitted = ndcg(found, JUDGMENTS)
    names = ["right", "noise", "more", "most"]
    either_way = [ndcg(TABLE.assign(score=sign * TABLE[feature]), JUDGMENTS) for feature in names for sign in (1, -1)]
    permuted = []
    for seed in range(5):
        fitting.labels = np.random.default_rng(seed).permutation(fitting.labels)
        permuted.append(ndcg(fitting.cross_validated(MODELS[name], FOLDS), JUDGMENTS))
    assert fitted > 0.8
    assert np.mean(permuted) < np.mean(either_way) + 0.05 < fitted - 0.3

    own = JUDGMENTS["qid"].map(FOLDS) == 2
    turned = JUDGMENTS.assign(rel=JUDGMENTS["rel"].where(~own, 2 - JUDGMENTS["rel"]))
    other = Fitting(TABLE, [turned], Fit()).cross_validated(MODELS[name], FOLDS)
    same = found["score"].to_numpy() == other["score"].to_numpy()
    assert same[own].all()
    assert same[~own].mean() < 0.2
