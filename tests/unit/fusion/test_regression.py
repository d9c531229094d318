from __future__ import annotations

import pandas as pd
import pytest

from submission.fusion.regression import RegressionEnsemble, RegressionMember

MEMBERS = (RegressionMember("knrm", {}, 0.5, -1.0, 1.0), RegressionMember("gru", {}, -0.125, 10.0, 20.0))
REGRESSION = RegressionEnsemble("1.0", 0.25, MEMBERS)


def build_scores(rows: dict[tuple[str, str], float]) -> pd.DataFrame:
    return pd.DataFrame([(qid, docno, score) for (qid, docno), score in rows.items()], columns=["qid", "docno", "score"])


def test_scores_match_hand_computed_values() -> None:
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
