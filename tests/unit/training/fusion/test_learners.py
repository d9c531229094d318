"""Tests of labels, learners and the regression of the ensemble on synthetic pools and scores."""

from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

from aragorn.errors import TrainingError
from aragorn_training.evaluation.folds import assign_folds
from aragorn_training.fusion import learners
from aragorn_training.fusion.ensemble import (
    FIT_CANDIDATES,
    fit_weighted_sum,
    score_held_out_queries,
)
from aragorn_training.fusion.recipe import FitSettings, LambdaMARTSettings, RankNetSettings

LEARNERS = {
    "ridge": partial(learners.fit_ridge, alpha=1.0),
    "lambdamart": partial(learners.fit_lambdamart, settings=LambdaMARTSettings(trees=10), seed=0),
    "ranknet": partial(
        learners.fit_ranknet, settings=RankNetSettings(steps=30, learning_rate=0.05), seed=0
    ),
    "ranknet, linear": partial(
        learners.fit_ranknet,
        settings=RankNetSettings(hidden_units=0, steps=30, learning_rate=0.05),
        seed=0,
    ),
}
COLUMNS = ["qid", "docno", "rel"]
JUDGED = pd.DataFrame([("1", "a", 2), ("1", "b", 0), ("2", "a", 1), ("3", "z", 2)], columns=COLUMNS)
QUALITY = pd.DataFrame([("1", "a", 1), ("1", "c", 2), ("2", "a", 2)], columns=COLUMNS)
PAIRS = pd.DataFrame([*product("123", "abcdefgh")], columns=["qid", "docno"])


def label(qrels, **settings):
    """Label PAIRS and return the labels by topic and docno; unlabelled documents are omitted."""
    table = PAIRS.assign(label=learners.label_pairs(PAIRS, qrels, FitSettings(**settings))).dropna()
    return {qid: table[table["qid"] == qid].set_index("docno")["label"].to_dict() for qid in "123"}


def test_labels_match_hand_computed_values():
    # the judged document of topic 3 is not in the pool
    expected = {"1": {"a": 2.0, "b": 0.0}, "2": {"a": 1.0}, "3": {}}
    assert label([JUDGED], unjudged_per_topic=0) == expected
    expected = {"a": 1.0, **dict.fromkeys("bcdefgh", 0.0)}
    assert label([JUDGED], unjudged_per_topic=30)["2"] == expected
    # only one file judges b and c
    labels = label([JUDGED, QUALITY], unjudged_per_topic=9, second_qrels_weight=0.25)
    assert labels["1"] == {"a": 0.75 * 2 + 0.25 * 1, **dict.fromkeys("defgh", 0.0)}
    assert labels["2"] == {"a": 0.75 * 1 + 0.25 * 2, **dict.fromkeys("bcdefgh", 0.0)}


def test_sample_of_unjudged_documents_depends_on_seed_topic_and_pool():
    samples = [label([JUDGED], unjudged_per_topic=3, seed=seed)["1"] for seed in (0, 1)]
    assert samples[0] != samples[1]
    assert [len(sample) for sample in samples] == [2 + 3] * 2
    settings = FitSettings(unjudged_per_topic=3)
    order = np.random.default_rng(0).permutation(len(PAIRS))
    labels = learners.label_pairs(PAIRS, [JUDGED], settings)
    first = PAIRS["qid"] == "1"
    shuffled = PAIRS.iloc[order].reset_index(drop=True)
    np.testing.assert_array_equal(learners.label_pairs(shuffled, [JUDGED], settings), labels[order])
    expected = labels[first]
    np.testing.assert_array_equal(learners.label_pairs(PAIRS[first], [JUDGED], settings), expected)


FEATURES = ["relevance", "noise 1", "noise 2", "noise 3"]
TABLE = pd.DataFrame(
    [(str(topic), f"d{n:02}") for topic in range(30) for n in range(30)], columns=["qid", "docno"]
)
TABLE[FEATURES] = np.random.default_rng(0).normal(size=(len(TABLE), 4))
GRADES = np.digitize(
    TABLE["relevance"] + np.random.default_rng(1).normal(scale=0.5, size=len(TABLE)), [0.5, 1.5]
)
JUDGMENTS = TABLE[["qid", "docno"]].assign(rel=GRADES)
FOLDS = {str(topic): topic % 5 for topic in range(30)}


def build_pool(judgments=JUDGMENTS):
    return learners.LabelledPool(TABLE, [judgments], FitSettings())


def build_training_set(features, labels, topics):
    return learners.TrainingSet(
        ["x", "y"], np.array(features, dtype=float), np.array(labels, dtype=float), np.array(topics)
    )


def test_ridge_matches_hand_computed_values():
    rows = [("1", "a", -1.0), ("1", "b", 1.0), ("2", "a", 1.0), ("2", "b", -1.0)]
    table = pd.DataFrame(rows, columns=["qid", "docno", "x"])
    judged = table[["qid", "docno"]].assign(rel=[0, 2, 2, 0])
    pool = learners.LabelledPool(table, [judged], FitSettings())
    ridge = learners.fit_ridge(pool.build_training_set(), 4.0)
    assert ridge.intercept == pytest.approx(1.0)
    # Σ x (y - mean) / (Σ x² + alpha)
    assert ridge.weights == {"x": pytest.approx(4 / (4 + 4.0))}
    np.testing.assert_allclose(ridge.score(np.array([[2.0], [-1.0]])), [2.0, 0.5])


def test_ranknet_takes_hand_computed_steps():
    # The pairs are (0, 1), (0, 2) and (1, 2), all of topic 0. The gradient of -log p, with p = 1 /
    # (1 + exp(w·(x_j - x_i))),
    # is (p - 1) (x_i - x_j); Adam's first step has the size of its learning rate.
    examples = build_training_set([[1, 0], [0, 0], [0, 1], [9, 9]], [2, 1, 0, 1], [0, 0, 0, 1])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        initial = torch.nn.Linear(2, 1, bias=False).weight.detach().double().numpy()[0]
    state = torch.get_rng_state()
    settings = RankNetSettings(hidden_units=0, steps=1, learning_rate=0.1, weight_decay=0.0)
    scores = learners.fit_ranknet(examples, settings, 3).score(np.eye(2))
    np.testing.assert_allclose(scores - initial, [0.1, -0.1], atol=1e-6)
    assert torch.equal(torch.get_rng_state(), state)  # the global random state is restored
    examples = build_training_set([[1, 0], [0, 1]], [2, 1], [0, 1])
    with pytest.raises(TrainingError, match="no topic has two documents with different labels"):
        learners.fit_ranknet(examples, RankNetSettings(), 0)
    with pytest.raises(TrainingError, match="1 topic with judged documents"):
        build_pool(JUDGMENTS[JUDGMENTS["qid"] == "3"])


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_are_deterministic_and_use_fractional_labels(name):
    learner = LEARNERS[name]
    examples = build_pool().build_training_set()
    scores = learner(examples).score(examples.features)
    assert len(set(scores.round(9))) > 30
    order = np.arange(len(examples.labels))
    if name == "lambdamart":  # rows need not be grouped by topic
        order = np.argsort(order % 30, kind="stable")
    arrays = (array[order] for array in (examples.features, examples.labels, examples.topics))
    actual = learner(learners.TrainingSet(examples.feature_names, *arrays)).score(examples.features)
    np.testing.assert_array_equal(actual, scores)

    # fractional grades are not rounded down
    pool = build_pool(JUDGMENTS.assign(rel=0.5 * (TABLE["relevance"] > 0)))
    means = pool.score(learner(pool.build_training_set()))["score"].groupby(pool.labels).mean()
    assert means[0.5] > means[0.0] + 0.1


def test_bootstrap_samples_surround_the_weight_and_are_seeded():
    pool = build_pool()
    weight = learners.fit_ridge(pool.build_training_set(), 1.0).weights["relevance"]
    samples, repeated = (
        [learners.fit_ridge(sample, 1.0).weights["relevance"] for sample in pool.bootstrap(50)]
        for _ in range(2)
    )
    assert samples == repeated
    assert np.percentile(samples, 2.5) < weight < np.percentile(samples, 97.5)


@pytest.mark.parametrize("name", LEARNERS)
def test_cross_validation_holds_out_the_fold(name):
    scores = build_pool().score_held_out_topics(LEARNERS[name], FOLDS)
    assert scores["score"].corr(TABLE["relevance"], method="spearman") > 0.7
    in_fold = JUDGMENTS["qid"].map(FOLDS) == 2
    inverted = JUDGMENTS.assign(rel=JUDGMENTS["rel"].where(~in_fold, 2 - JUDGMENTS["rel"]))
    changed = build_pool(inverted).score_held_out_topics(LEARNERS[name], FOLDS)
    is_same = scores["score"].to_numpy() == changed["score"].to_numpy()
    assert is_same[in_fold].all()
    assert is_same[~in_fold].mean() < 0.2


FINGERPRINTS = {"knrm": {"knrm": "k"}, "gru": {"gru": "g"}}


def simulate_scores(query_count):
    """Simulate scores (queries, 105): knrm ranks the positives high, gru low."""
    rng = np.random.default_rng(0)
    is_positive = np.arange(105) < 5
    knrm = rng.normal(size=(query_count, 105)) + 2 * is_positive
    return {"knrm": knrm, "gru": 5 * rng.normal(size=(query_count, 105)) - 3 * is_positive}


def test_regression_is_least_squares_over_scaled_scores():
    # positives and the first negative of each
    assert FIT_CANDIDATES.tolist() == [0, 1, 2, 3, 4, 5, 25, 45, 65, 85]
    all_scores = simulate_scores(6)
    ensemble, metrics = fit_weighted_sum(all_scores, FINGERPRINTS)
    scores = {name: values[:, FIT_CANDIDATES] for name, values in all_scores.items()}
    columns = [(v.ravel() - v.min()) / (v.max() - v.min()) for v in scores.values()]
    features = np.stack([*columns, np.ones(60)], axis=1)
    labels = np.tile(np.repeat([1.0, 0.0], 5), 6)
    expected, *_ = np.linalg.lstsq(features, labels, rcond=None)
    weights = [*(member.weight for member in ensemble.members), ensemble.intercept]
    assert weights == pytest.approx(expected.tolist())
    assert [
        (member.name, member.checkpoints, member.minimum, member.maximum)
        for member in ensemble.members
    ] == [(name, FINGERPRINTS[name], values.min(), values.max()) for name, values in scores.items()]
    # without negative coefficients
    knrm, gru = fit_weighted_sum(all_scores, FINGERPRINTS, True)[0].members
    assert knrm.weight > gru.weight == 0 > ensemble.members[1].weight
    residual = labels - features @ expected
    expected = {"pairs": 60, "R²": pytest.approx(1 - residual.var() / labels.var(), abs=1e-4)}
    assert metrics == expected


def test_cross_validated_scores_hold_out_the_fold():
    scores = simulate_scores(20)
    folds = assign_folds(20)
    held_out_scores = score_held_out_queries(scores, non_negative=False)
    is_tested = folds == folds[0]
    training = {name: values[~is_tested] for name, values in scores.items()}
    model, _ = fit_weighted_sum(training, FINGERPRINTS)
    tested = {name: values[is_tested] for name, values in scores.items()}
    expected = model.score(model.min_max_scale(tested))
    assert held_out_scores[is_tested] == pytest.approx(expected, abs=1e-12)
    fitted_to_all, _ = fit_weighted_sum(scores, FINGERPRINTS)
    in_sample = fitted_to_all.score(fitted_to_all.min_max_scale(scores))
    assert not np.allclose(held_out_scores, in_sample)
