"""Tests of the scores of fusion models against hand-computed values."""

import numpy as np
import pandas as pd
import pytest

from submission.fusion.linear import LengthFeature, LinearFusion, LinearMember, compute_log_lengths, standardise_by_topic
from submission.fusion.quality import QualityInterpolation
from submission.fusion.regression import RegressionEnsemble, RegressionMember

LINEAR_MEMBERS = (LinearMember("dirichlet", {}, 200, 0.25), LinearMember("bm25", {}, 0, -0.125))
MODEL = LinearFusion("1.1.0", 0.5, LINEAR_MEMBERS, LengthFeature(6.5, 1.0))


def build_frame(rows: list[tuple[str, str, float]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["qid", "docno", "dirichlet"])


def test_linear_scores_match_hand_computed_values() -> None:
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


def test_quality_scores_match_hand_computed_values() -> None:
    scores = QualityInterpolation("1", 3, 0.5).score(np.array([9.0, 6, 3, 2.5, 1]), np.array([0.0, 0, 3]))
    high, low = 3 / np.sqrt(6), np.sqrt(2) / 2  # z of 9 among 9, 6, 3; minus z of 0 among 0, 0, 3
    first = [high - low / 2, -low / 2, -high + low]
    assert scores.tolist() == pytest.approx([*first, min(first) - 1.5, min(first) - 3])


MEMBERS = (RegressionMember("knrm", {}, 0.5, -1.0, 1.0), RegressionMember("gru", {}, -0.125, 10.0, 20.0))
REGRESSION = RegressionEnsemble("1.0", 0.25, MEMBERS)


def build_scores(rows: dict[tuple[str, str], float]) -> pd.DataFrame:
    return pd.DataFrame([(qid, docno, score) for (qid, docno), score in rows.items()], columns=["qid", "docno", "score"])


def test_regression_scores_match_hand_computed_values() -> None:
    lists = {
        "knrm": build_scores({("1", "a"): 0.0, ("1", "b"): 7.0, ("2", "a"): -1.0}),
        "gru": build_scores({("1", "a"): 14.0, ("1", "c"): 25.0, ("2", "a"): 3.0}),
    }
    ranking = REGRESSION.score_rankings(lists)
    assert {(row.qid, row.docno): row.score for row in ranking.itertuples()} == {
        ("1", "a"): pytest.approx(0.25 + 0.5 * 0.5 - 0.125 * 0.4),
        ("1", "b"): pytest.approx(0.25 + 0.5),  # clipped; gru does not list it
        ("1", "c"): pytest.approx(0.25 - 0.125),  # clipped; knrm does not list it
        ("2", "a"): pytest.approx(0.25),
    }


def test_constant_scores_have_no_effect() -> None:
    regression = RegressionEnsemble("1.0", 0.0, (RegressionMember("knrm", {"knrm": "k"}, 1.0, 3.0, 3.0),))
    assert regression.score_rankings({"knrm": build_scores({("1", "a"): 3.0})})["score"].tolist() == [0.0]
