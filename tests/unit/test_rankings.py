"""Tests of rankings and of runs."""

import json

import msgspec
import numpy as np
import pandas as pd
import pytest

from aragorn.errors import OutputError
from aragorn.rankings import (
    COLUMNS,
    build_rankings,
    decode_rankings,
    encode_rankings,
    format_run,
    rank_by_score,
    rank_by_score_stable,
    validate_rankings,
)
from aragorn.storage.recorded_files import FINGERPRINT_FILE, RunFiles

TOPICS = pd.DataFrame({"qid": ["2", "1"], "query": ["b", "a"]})
FIRST, SECOND, THIRD = VALID_ROWS = [("2", "z", 1, 0.5), ("1", "b", 1, 3.0), ("1", "a", 2, 3.0)]


def test_ties_are_ranked_by_docno_or_in_stable_order():
    scores = pd.DataFrame(
        {"qid": ["1", "1", "1", "2"], "docno": ["b", "a", "c", "z"], "score": [1, 1, 2, 0]}
    )
    rankings = rank_by_score(scores, TOPICS)
    expected = [("2", "z", 1, 0.0), ("1", "c", 1, 2.0), ("1", "a", 2, 1.0), ("1", "b", 3, 1.0)]
    assert list(rankings.itertuples(index=False, name=None)) == expected
    assert rankings.columns.tolist() == COLUMNS
    assert [str(dtype) for dtype in rankings.dtypes] == ["object", "object", "int64", "float64"]
    assert rank_by_score_stable(scores, TOPICS)["docno"].tolist() == ["z", "c", "b", "a"]


@pytest.mark.parametrize("valid_rows", [VALID_ROWS, []])
def test_valid_rankings_round_trip(valid_rows):
    rankings = build_rankings((qid, docno, score) for qid, docno, _, score in valid_rows)
    assert list(rankings.itertuples(index=False, name=None)) == valid_rows
    validate_rankings(rankings, TOPICS, set())
    pd.testing.assert_frame_equal(decode_rankings(encode_rankings(rankings)), rankings)
    with pytest.raises(msgspec.MsgspecError):
        decode_rankings(encode_rankings(rankings)[:-3])


@pytest.mark.parametrize(("invalid_rows", "message"), [
    ([*VALID_ROWS, ("3", "a", 1, 1.0)], "topic 3: not in the input"),
    ([SECOND, FIRST], "topic 2: out of topic order"),
    ([FIRST, SECOND, ("1", "x", 2, 1.0)], "topic 1: unknown document .x, rank 2"),
    ([FIRST, SECOND, ("1", "b", 2, 1.0)], "topic 1: duplicate document"),
    ([FIRST, SECOND, ("1", "a", 3, 1.0)], "topic 1: ranks must be"),
    ([FIRST, ("1", "a", 1, float("nan"))], "topic 1: score not finite"),
    ([FIRST, SECOND, ("1", "a", 2, 3.5)], "topic 1: score increases .a, rank 2, score 3.5"),
])  # fmt: skip
def test_invalid_rankings_raise(invalid_rows, message):
    with pytest.raises(ValueError, match=message):
        validate_rankings(pd.DataFrame(invalid_rows, columns=COLUMNS), TOPICS, {"x"})
    with pytest.raises(ValueError, match="columns"):
        validate_rankings(pd.DataFrame(VALID_ROWS, columns=[*COLUMNS[:3], "value"]), TOPICS, set())


BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))


@pytest.mark.parametrize(("scores", "written"), [
    # ties are broken by minimal decrements
    ([1, 1, BELOW_ONE, 0.5], ["1.0", "0.99999994", "0.9999999", "0.5"]),
    # no exponents
    ([1, 1, 1, 1e-12, -2e9], ["1.0", "0.99999994", "0.9999999", "0.000000000001", "-2000000000.0"]),
])  # fmt: skip
def test_written_scores_decrease_strictly(scores, written):
    columns = {"qid": "1", "docno": list("abcde")[: len(scores)]}
    frame = pd.DataFrame(columns | {"score": np.array(scores, dtype=np.float32)})
    rows = [
        line.split(" ") for line in format_run(rank_by_score(frame, TOPICS), "t-x").splitlines()
    ]
    assert rows == [
        ["1", "Q0", docno, str(rank), score, "t-x"]
        for rank, (docno, score) in enumerate(zip(frame["docno"], written, strict=True), 1)
    ]


@pytest.mark.parametrize("rows", [
    [("1", "a", 1, 0.0), ("1", "b", 2, -np.inf)],
    [SECOND, ("1", "b", 2, 1.0)],
    [SECOND, ("1", "a", 3, 1.0)],
    [("1", "a", 1, 1.0), ("1", "b", 2, 2.0)],
])  # fmt: skip
def test_invalid_rankings_are_not_formatted(rows):
    with pytest.raises(ValueError, match="topic 1: "):
        format_run(pd.DataFrame(rows, columns=COLUMNS), "t")


RUN_FILES = ["a-x.txt"]


def test_overwrite_removes_old_runs_with_the_first_new_run(tmp_path):
    (tmp_path / ".tracker").write_text("TIRA's\n")
    output = RunFiles(tmp_path, {"input": "old"}, RUN_FILES, False)
    for name in "xy":
        output.write_run(f"a-{name}.txt", f"{name}\n", "k")
    with pytest.raises(OutputError, match="another checkpoint, code, device or precision"):
        output.is_up_to_date("a-x.txt", "other")
    output = RunFiles(tmp_path, {"input": "new"}, RUN_FILES, True)
    assert (tmp_path / "a-y.txt").exists()
    output.write_run("a-x.txt", "new\n", "k")
    names = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert names == [".tracker", "a-x.txt", FINGERPRINT_FILE]
    assert json.loads((tmp_path / FINGERPRINT_FILE).read_text())["inputs"] == {"input": "new"}
