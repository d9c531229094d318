"""Tests of the similarity of rankings: hand-computed values and faulty directories."""

from __future__ import annotations

from math import nan
from pathlib import Path

import pytest

from submission.errors import InputError
from training.evaluation.similarity import compare_runs, compute_similarity_tables, jaccard, spearman


def test_similarity_tables_match_hand_computed_values() -> None:
    assert jaccard(["a", "b", "c"], ["c", "d"]) == 0.25
    assert jaccard(["a"], []) == 0
    assert spearman(["a", "x", "b", "c"], ["c", "b", "y", "a"]) == pytest.approx(-1)
    assert spearman(["a", "b", "c", "d"], ["b", "a", "z", "c", "d"]) == pytest.approx(1 - 6 * 2 / (4 * 15))  # 1 - 6Σd²/n(n²-1)
    assert spearman(["a", "b", "x"], ["a", "b", "y"]) is None
    tables = compute_similarity_tables({
        "bm25": {"1": ["a", "b", "c"], "2": ["a", "b", "c"]},
        "knrm": {"1": ["c", "b", "a"], "2": ["a", "b", "d"], "3": ["e"]},
        "snrm": {"1": ["x"]},
    })  # fmt: skip
    assert tables["jaccard"].loc["bm25", "knrm"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert tables["jaccard"].loc["snrm"].tolist() == [0, 0, 1]
    assert tables["spearman"].loc["knrm", "bm25"] == pytest.approx(-1)
    assert tables["spearman"].loc["bm25"].tolist() == pytest.approx([1, -1, nan], nan_ok=True)
    assert tables["spearman-topics"].loc["bm25"].tolist() == [2, 1, 0]


def test_compare_runs_requires_common_topics(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for system, qids in (("bm25", "12"), ("knrm", "2")):
        lines = (f"{qid} Q0 {docno} {rank} {-rank} me\n" for qid in qids for rank, docno in enumerate("abc", 1))
        (tmp_path / f"me-{system}.txt").write_text("".join(lines))
    assert compare_runs(tmp_path, tmp_path / "analysis")["jaccard"].loc["bm25", "knrm"] == 0.5
    assert "Topics in all runs: 1 of 2; missing topics: knrm (1)" in caplog.text
    (tmp_path / "me-gru.txt").write_text("2 Q0 z 1 1.0 me\n")
    compare_runs(tmp_path, tmp_path / "analysis")
    assert "bm25 and gru: no common document in any topic; check that both are of the same corpus" in caplog.text
    (tmp_path / "me-gru.txt").write_text("01 Q0 a 1 1.0 me\n")
    with pytest.raises(InputError, match=r"no common topic.* 01 without leading zeros equals 1"):
        compare_runs(tmp_path, tmp_path / "analysis")


@pytest.mark.parametrize(
    ("names", "message"),
    [(["me-bm25", "run"], "1 run named"), (["me-bm25", "you-bm25"], "runs of one system by several teams")],
)
def test_compare_runs_requires_distinct_systems(names: list[str], message: str, tmp_path: Path) -> None:
    for name in names:
        (tmp_path / f"{name}.txt").write_text("1 Q0 a 1 1.0 tag\n")
    with pytest.raises(InputError, match=message):
        compare_runs(tmp_path, tmp_path / "analysis")
