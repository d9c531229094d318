from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from submission.fusion.linear import LengthFeature, LinearFusion, LinearMember, compute_log_lengths, standardise_by_topic

MEMBERS = (LinearMember("dirichlet", {}, 200, 0.25), LinearMember("bm25", {}, 0, -0.125))
MODEL = LinearFusion("1.1.0", 0.5, MEMBERS, LengthFeature(6.5, 1.0))


def build_frame(rows: list[tuple[str, str, float]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["qid", "docno", "dirichlet"])


def test_score_matches_hand_computed_value() -> None:
    features = {"bm25": np.array([2.0, 0.0]), "dirichlet": np.array([1.0, -2.0]), "length": np.array([0.5, 0.25])}
    assert MODEL.score(features).tolist() == [0.5 + 0.25 - 0.25 + 0.5, 0.5 - 0.5 + 0.0 + 0.25]
    assert {name: values.tolist() for name, values in MODEL.compute_contributions(features).items()} == {
        "dirichlet": [0.25, -0.5], "bm25": [-0.25, -0.0], "length": [0.5, 0.25],
    }  # fmt: skip


def test_standardised_features_match_hand_computed_values() -> None:
    pool = build_frame([("1", "a", 1.0), ("1", "b", 3.0), ("2", "a", 5.0), ("2", "b", 5.0), ("1", "c", 5.0)])
    candidates = build_frame([("2", "a", 5.0), ("1", "c", 5.0), ("1", "x", -1.0), ("3", "a", 9.0), ("2", "x", 7.0)])
    deviation = np.sqrt(8 / 3)
    scores = standardise_by_topic(candidates, pool)["dirichlet"]
    assert scores.tolist() == [0.0, 2 / deviation, -4 / deviation, 0.0, 0.0]  # 0 without a deviation or without the topic


@pytest.mark.parametrize("value", [0.1, 1e-300, 1e8 / 3])
def test_equal_values_have_no_deviation(value: float) -> None:
    pool = build_frame([("1", str(row), value) for row in range(7)])
    assert standardise_by_topic(pool, pool)["dirichlet"].tolist() == [0.0] * 7
    assert np.isfinite(standardise_by_topic(pool, pd.concat([pool, build_frame([("1", "x", value * 1.5)])]))["dirichlet"]).all()


def test_log_lengths() -> None:
    lengths = compute_log_lengths(["", "one", "some\nfour  words here", "word " * 700], 6.5)
    assert lengths.tolist() == [0.0, 0.0, pytest.approx(np.log(4)), 6.5]
