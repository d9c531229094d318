from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from submission.errors import CheckpointError
from submission.fusion.regression import RegressionEnsemble, RegressionMember
from submission.storage.checkpoint_directory import read_config
from tests.conftest import update_hash
from training.fusion.ensemble import save_regression

REGRESSION = RegressionEnsemble(
    "1.0",
    0.25,
    (RegressionMember("knrm", {"knrm": "k1"}, 0.5, -1.0, 1.0), RegressionMember("gru", {"gru": "g1"}, -0.125, 10.0, 20.0)),
)


def scores(rows: dict[tuple[str, str], float]) -> pd.DataFrame:
    return pd.DataFrame([(qid, docno, score) for (qid, docno), score in rows.items()], columns=["qid", "docno", "score"])


def test_scores_match_hand_computed_values() -> None:
    lists = {
        "knrm": scores({("1", "a"): 0.0, ("1", "b"): 7.0, ("2", "a"): -1.0}),
        "gru": scores({("1", "a"): 14.0, ("1", "c"): 25.0, ("2", "a"): 3.0}),
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
    assert regression.score_rankings({"knrm": scores({("1", "a"): 3.0})})["score"].tolist() == [0.0]


def test_serialisation_round_trip(tmp_path: Path) -> None:
    save_regression(tmp_path / "ensemble", REGRESSION, {"pairs": 4}, {"training_data": {"input": {"args-me.json": "12"}}})
    assert read_config(tmp_path / "ensemble", RegressionEnsemble) == REGRESSION
    assert REGRESSION.formula() == "0.250 +0.500 minmax(knrm) -0.125 minmax(gru)"
    assert REGRESSION.member_checkpoints == {"knrm": {"knrm": "k1"}, "gru": {"gru": "g1"}}
    assert "knrm" in (tmp_path / "ensemble" / "README.md").read_text()
    changed = replace(REGRESSION, members=(RegressionMember("knrm", {"knrm": "k2"}, 0.5, -1.0, 1.0),))
    assert (
        len({REGRESSION.fingerprint, changed.fingerprint, read_config(tmp_path / "ensemble", RegressionEnsemble).fingerprint})
        == 2
    )


def test_invalid_files_fail(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="checkpoint not found"):
        read_config(tmp_path / "nowhere", RegressionEnsemble)
    save_regression(tmp_path / "ensemble", REGRESSION, {}, {"training_data": {"input": {}}})
    config = tmp_path / "ensemble" / "config.json"
    config.write_text(config.read_text().replace("0.25", "0.26"))
    with pytest.raises(CheckpointError, match="damaged"):
        read_config(tmp_path / "ensemble", RegressionEnsemble)
    for content, version in (({"intercept": "much"}, "unknown"), ({"version": "0.9", "intercept": "much"}, "0.9")):
        config.write_text(json.dumps(content))
        update_hash(tmp_path / "ensemble", "config.json")
        with pytest.raises(CheckpointError, match=f"written by version {version}, incompatible with"):
            read_config(tmp_path / "ensemble", RegressionEnsemble)
