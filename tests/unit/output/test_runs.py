"""Tests of runs, in which scores decrease strictly, and of overwriting the runs of a directory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from submission.output.run_directory import FINGERPRINT_FILE, RunDirectory
from submission.output.runs import format_run
from submission.rankings import rank_by_score

TOPICS = pd.DataFrame({"qid": ["2", "1"], "query": ["b", "a"]})
BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))


@pytest.mark.parametrize(
    ("scores", "written"),
    [
        ([1, 1, BELOW_ONE, 0.5], ["1.0", "0.99999994", "0.9999999", "0.5"]),  # ties are broken by minimal decrements
        ([1, 1, 1, 1e-12, -2e9], ["1.0", "0.99999994", "0.9999999", "0.000000000001", "-2000000000.0"]),  # no exponents
    ],
)
def test_written_scores_decrease_strictly(scores: list[float], written: list[str]) -> None:
    frame = pd.DataFrame({"qid": "1", "docno": list("abcde")[: len(scores)], "score": np.array(scores, dtype=np.float32)})
    rows = [line.split(" ") for line in format_run(rank_by_score(frame, TOPICS), "t-x").splitlines()]
    assert rows == [
        ["1", "Q0", docno, str(rank), score, "t-x"]
        for rank, (docno, score) in enumerate(zip(frame["docno"], written, strict=True), 1)
    ]


@pytest.mark.parametrize(
    ("docnos", "ranks", "scores", "message"),
    [
        (["a", "b"], [1, 2], [np.nan, 0], "scores must be finite"),
        (["a", "b"], [1, 2], [0, -np.inf], "scores must be finite"),
        (["a", "a"], [1, 2], [2, 1], ""),
        (["a", "b"], [1, 3], [2, 1], ""),
        (["a", "b"], [1, 2], [1, 2], ""),
    ],
)
def test_invalid_rankings_fail(docnos: list[str], ranks: list[int], scores: list[float], message: str) -> None:
    run = pd.DataFrame({"qid": "1", "docno": docnos, "rank": ranks, "score": scores})
    with pytest.raises(ValueError, match=f"topic 1.*{message}"):
        format_run(run, "t")


RUN_FILES = ["a-x.txt"]


def test_overwrite_removes_old_runs_with_the_first_new_run(tmp_path: Path) -> None:
    (tmp_path / ".tracker").write_text("TIRA's\n")
    with RunDirectory(tmp_path) as output:
        output.resume({"input": "old"}, RUN_FILES, False)
        for name in "xy":
            output.write_run(f"a-{name}.txt", f"{name}\n", "k")
        output.resume({"input": "new"}, RUN_FILES, True)
        assert (tmp_path / "a-y.txt").exists()
        output.write_run("a-x.txt", "new\n", "k")
    names = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert names == [".tracker", "a-x.txt", FINGERPRINT_FILE]
    assert json.loads((tmp_path / FINGERPRINT_FILE).read_text())["inputs"] == {"input": "new"}
