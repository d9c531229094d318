"""Tests of fusion models: saving, fingerprints, invalid parameters and scores."""

import json

import msgspec
import numpy as np
import pandas as pd
import pytest

from aragorn.errors import CheckpointError
from aragorn.storage.checkpoint_directory import (
    CONFIG,
    encode_json,
    read_config,
    write_with_provenance,
)
from aragorn.systems.quality import QualityInterpolation
from aragorn.systems.weighted_sum import (
    LengthFeature,
    Member,
    WeightedSum,
    compute_log_lengths,
    merge_scores,
    standardise_by_topic,
)

DIRICHLET = Member("dirichlet", {"dirichlet": "d1"}, 200, 0.25)
BM25 = Member("bm25", {}, 0, -0.125)
KNRM = Member("knrm", {"knrm": "k1"}, 100, 0.5, -1.0, 1.0)
GRU = Member("gru", {"gru": "g1"}, 100, -0.125, 10.0, 20.0)
Z_SCORES = WeightedSum("1.1.0", "z_score", 0.5, (DIRICHLET, BM25), LengthFeature(6.5, 1.0))
MIN_MAX = WeightedSum("1.1.0", "min_max", 0.25, (KNRM, GRU))
QUALITY = QualityInterpolation("1.1.0", 20, 0.25)
FORMULAS = [
    (Z_SCORES, "0.500 +0.250 z(dirichlet) -0.125 z(bm25) +1.000 z(length)"),
    (MIN_MAX, "0.250 +0.500 minmax(knrm) -0.125 minmax(gru)"),
    (QUALITY, "z(relevance) +0.250 z(quality), over the top 20 documents of a topic"),
]
# model, path of a value, another value that affects scores
VARIANTS = [
    (Z_SCORES, ("intercept",), 0.25),
    (Z_SCORES, ("length",), None),
    (Z_SCORES, ("members", 0, "checkpoints"), {}),
    (Z_SCORES, ("members", 0, "pool_depth"), 100),
    (MIN_MAX, ("intercept",), 0.5),
    (MIN_MAX, ("members", 1, "maximum"), 21.0),
    (QUALITY, ("depth",), 21),
    (QUALITY, ("weight",), 0.5),
]
INVALID = [  # model, path of a value, invalid value, message
    (Z_SCORES, ("members", 0, "pool_depth"), 0, "no member adds documents"),
    (Z_SCORES, ("members", 1, "name"), "dirichlet", "names must be unique"),
    (Z_SCORES, ("members", 1, "name"), "length", "different from 'length'"),
    (Z_SCORES, ("normaliser",), "min_max", "member dirichlet: `minimum` and `maximum` are set"),
    (MIN_MAX, ("members", 1, "minimum"), None, "member gru: `minimum` and `maximum` are set"),
    (MIN_MAX, ("members", 1, "pool_depth"), 0, "member gru: `pool_depth` is 0, but min_max scales"),
    (MIN_MAX, ("length",), {"cap": 6.5, "weight": 1}, "`length` has no range"),
    (MIN_MAX, ("intercept",), "much", r"not loadable by version \S+ \(ValidationError"),
    (QUALITY, ("weight",), -1, "weight"),
]


def replace_value(model, path, value):
    """Return the JSON config of `model` with `value` at `path`."""
    inner = config = json.loads(msgspec.json.encode(model))
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return config


def write_checkpoint(directory, config):
    write_with_provenance(
        directory, {CONFIG: encode_json(config)}, {"training_data": {"input": {}}}
    )
    return directory


@pytest.mark.parametrize(("model", "formula"), FORMULAS)
def test_models_are_read_as_saved(model, formula, tmp_path):
    saved = read_config(
        write_checkpoint(tmp_path / "model", msgspec.to_builtins(model)), type(model)
    )
    assert saved == model
    assert saved.fingerprint == model.fingerprint
    assert saved.format_formula() == formula


@pytest.mark.parametrize(("model", "path", "value"), VARIANTS)
def test_fingerprints_identify_parameters_but_not_versions(model, path, value):
    changed = msgspec.convert(replace_value(model, path, value), type(model))
    assert changed.fingerprint != model.fingerprint
    other_version = msgspec.convert(replace_value(model, ("version",), "2"), type(model))
    assert other_version.fingerprint == model.fingerprint


@pytest.mark.parametrize(("model", "path", "value", "message"), INVALID)
def test_invalid_models_are_refused(model, path, value, message, tmp_path):
    directory = write_checkpoint(tmp_path / "model", replace_value(model, path, value))
    with pytest.raises(CheckpointError, match=message):
        read_config(directory, type(model))


def build_frame(rows):
    return pd.DataFrame(rows, columns=["qid", "docno", "dirichlet"])


def test_sums_of_z_scores_match_hand_computed_values():
    values = {"bm25": [2.0, 0.0], "dirichlet": [1.0, -2.0], "length": [0.5, 0.25]}
    features = {name: np.array(column) for name, column in values.items()}
    assert Z_SCORES.score(features).tolist() == [0.5 + 0.25 - 0.25 + 0.5, 0.5 - 0.5 + 0.0 + 0.25]
    assert {name: values.tolist() for name, values in Z_SCORES.compute_contributions(features).items()} == {
        "dirichlet": [0.25, -0.5], "bm25": [-0.25, -0.0], "length": [0.5, 0.25],
    }  # fmt: skip


def test_standardised_features_match_hand_computed_values():
    pool = build_frame(
        [("1", "a", 1.0), ("1", "b", 3.0), ("2", "a", 5.0), ("2", "b", 5.0), ("1", "c", 5.0)]
    )
    candidates = build_frame(
        [("2", "a", 5.0), ("1", "c", 5.0), ("1", "x", -1.0), ("3", "a", 9.0), ("2", "x", 7.0)]
    )
    deviation = np.sqrt(8 / 3)
    scores = standardise_by_topic(candidates, pool)["dirichlet"]
    # 0 without a deviation or without the topic
    assert scores.tolist() == [0.0, 2 / deviation, -4 / deviation, 0.0, 0.0]


@pytest.mark.parametrize("value", [0.1, 1e-300, 1e8 / 3])
def test_equal_values_have_no_deviation(value):
    pool = build_frame([("1", str(row), value) for row in range(7)])
    assert standardise_by_topic(pool, pool)["dirichlet"].tolist() == [0.0] * 7
    candidates = pd.concat([pool, build_frame([("1", "x", value * 1.5)])])
    assert np.isfinite(standardise_by_topic(pool, candidates)["dirichlet"]).all()


def test_log_lengths():
    lengths = compute_log_lengths(["", "one", "some\nfour  words here", "word " * 700], 6.5)
    assert lengths.tolist() == [0.0, 0.0, pytest.approx(np.log(4)), 6.5]


def test_quality_scores_match_hand_computed_values():
    scores = QualityInterpolation("1", 3, 0.5).score(
        np.array([9.0, 6, 3, 2.5, 1]), np.array([0.0, 0, 3])
    )
    high, low = 3 / np.sqrt(6), np.sqrt(2) / 2  # z of 9 among 9, 6, 3; minus z of 0 among 0, 0, 3
    first = [high - low / 2, -low / 2, -high + low]
    assert scores.tolist() == pytest.approx([*first, min(first) - 1.5, min(first) - 3])


def build_scores(rows):
    columns = ["qid", "docno", "score"]
    return pd.DataFrame([(*pair, score) for pair, score in rows.items()], columns=columns)


def test_sums_of_scaled_scores_match_hand_computed_values():
    rankings = {
        "knrm": build_scores({("1", "a"): 0.0, ("1", "b"): 7.0, ("2", "a"): -1.0}),
        "gru": build_scores({("1", "a"): 14.0, ("1", "c"): 25.0, ("2", "a"): 3.0}),
    }
    pairs = pd.DataFrame(
        [("2", "a"), ("1", "c"), ("1", "a"), ("1", "b"), ("1", "x")], columns=["qid", "docno"]
    )
    scores = MIN_MAX.score(MIN_MAX.normalise(merge_scores(pairs, rankings), pairs))
    knrm = 0.5
    gru = -0.125
    # ranked by neither, gru, both, knrm and neither; scores of one are clipped
    expected = [0.25, 0.25 + gru, 0.25 + knrm * 0.5 + gru * 0.4, 0.25 + knrm, 0.25]
    assert scores.tolist() == pytest.approx(expected)


def test_contributions_are_added_to_the_intercept_in_the_order_of_members():
    features = {"first": np.array([1e16]), "second": np.array([-1e16]), "third": np.ones(1)}
    members = tuple(Member(name, {}, 100, 1.0) for name in features)
    # 2.0 in reverse order, 1.25 if the intercept is added last
    assert WeightedSum("1", "z_score", 0.25, members).score(features).tolist() == [1.0]


def test_constant_scores_have_no_effect():
    model = WeightedSum("1.0", "min_max", 0.0, (Member("knrm", {}, 100, 1.0, 3.0, 3.0),))
    assert model.min_max_scale({"knrm": np.array([3.0, 5.0])})["knrm"].tolist() == [0.0, 0.0]
