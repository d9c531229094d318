from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from submission.errors import CheckpointError
from submission.fusion.linear import LengthFeature, LinearFusion, LinearMember, log_lengths, standardise_by_topic
from submission.storage.checkpoint_directory import CARD, CONFIG, METRICS, encode_json, read_config, write_with_provenance
from tests.conftest import update_hash

MODEL = LinearFusion(
    "1.1.0",
    0.5,
    (LinearMember("dirichlet", {"dirichlet": "d1"}, 200, 0.25), LinearMember("bm25", {}, 0, -0.125)),
    LengthFeature(6.5, 1.0),
)


def frame(rows: list[tuple[str, str, float]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["qid", "docno", "dirichlet"])


def test_score_matches_hand_computed_value() -> None:
    features = {"bm25": np.array([2.0, 0.0]), "dirichlet": np.array([1.0, -2.0]), "length": np.array([0.5, 0.25])}
    assert MODEL.score(features).tolist() == [0.5 + 0.25 - 0.25 + 0.5, 0.5 - 0.5 + 0.0 + 0.25]
    assert {name: values.tolist() for name, values in MODEL.compute_contributions(features).items()} == {
        "dirichlet": [0.25, -0.5], "bm25": [-0.25, -0.0], "length": [0.5, 0.25],
    }  # fmt: skip
    assert MODEL.formula() == "0.500 +0.250 z(dirichlet) -0.125 z(bm25) +1.000 z(length)"
    assert MODEL.member_checkpoints == {"dirichlet": {"dirichlet": "d1"}, "bm25": {}}


def test_standardised_features_match_hand_computed_values() -> None:
    pool = frame([("1", "a", 1.0), ("1", "b", 3.0), ("2", "a", 5.0), ("2", "b", 5.0), ("1", "c", 5.0)])
    candidates = frame([("2", "a", 5.0), ("1", "c", 5.0), ("1", "x", -1.0), ("3", "a", 9.0), ("2", "x", 7.0)])
    deviation = np.sqrt(8 / 3)
    scores = standardise_by_topic(candidates, pool)["dirichlet"]
    assert scores.tolist() == [0.0, 2 / deviation, -4 / deviation, 0.0, 0.0]  # 0 without a deviation or without a pool


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.randoms())
def test_standardisation_does_not_depend_on_pool_order(values: list[float], random: Any) -> None:
    pool = frame([("1", str(row), value) for row, value in enumerate(values)])
    shuffled = pool.iloc[random.sample(range(len(pool)), len(pool))]
    scores, shuffled_scores = (standardise_by_topic(pool, order)["dirichlet"] for order in (pool, shuffled))
    assert scores.tolist() == shuffled_scores.tolist()
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("value", [0.1, 1e-300, 1e8 / 3])
def test_equal_values_have_no_deviation(value: float) -> None:
    pool = frame([("1", str(row), value) for row in range(7)])
    assert standardise_by_topic(pool, pool)["dirichlet"].tolist() == [0.0] * 7
    assert np.isfinite(standardise_by_topic(pool, pd.concat([pool, frame([("1", "x", value * 1.5)])]))["dirichlet"]).all()


def test_log_lengths() -> None:
    lengths = log_lengths(["", "one", "some\nfour  words here", "word " * 700], 6.5)
    assert lengths.tolist() == [0.0, 0.0, pytest.approx(np.log(4)), 6.5]


def write(directory: Path, config: object) -> None:
    write_with_provenance(directory, {CONFIG: encode_json(config), METRICS: b"{}", CARD: b""}, {"training_data": {"input": {}}})


def test_serialisation_round_trip(tmp_path: Path) -> None:
    write(tmp_path / "fusion", msgspec.to_builtins(MODEL))
    assert read_config(tmp_path / "fusion", LinearFusion) == MODEL
    variants = [
        msgspec.structs.replace(MODEL, intercept=0.25),
        msgspec.structs.replace(MODEL, length=None),
        msgspec.structs.replace(MODEL, members=(msgspec.structs.replace(MODEL.members[0], pool_depth=100), MODEL.members[1])),
        msgspec.structs.replace(MODEL, members=(msgspec.structs.replace(MODEL.members[0], checkpoints={}), MODEL.members[1])),
    ]
    assert len({MODEL.fingerprint, *(variant.fingerprint for variant in variants)}) == 5
    assert msgspec.structs.replace(MODEL, version="2").fingerprint == MODEL.fingerprint


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        (("intercept",), float("nan"), "intercept"),
        (("members", 0, "weight"), float("inf"), "weight"),
        (("members", 0, "weight"), "much", "weight"),
        (("members", 0, "best"), -1, "best"),
        (("members", 0, "best"), 0, "no member adds documents"),
        (("members", 1, "name"), "dirichlet", "names must be unique"),
        (("members", 1, "name"), "length", "different from 'length'"),
        (("members",), [], "no member adds documents"),
        (("length", "most"), 0, "most"),
        (("more",), 1, "more"),
    ],
)
def test_invalid_models_fail(tmp_path: Path, where: tuple[str | int, ...], value: object, words: str) -> None:
    config = msgspec.to_builtins(MODEL)
    write(tmp_path / "fusion", config)
    inner = config
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    (tmp_path / "fusion" / "config.json").write_text(json.dumps(config))
    update_hash(tmp_path / "fusion", "config.json")
    with pytest.raises(CheckpointError, match=words):
        read_config(tmp_path / "fusion", LinearFusion)
