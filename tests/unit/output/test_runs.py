from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from submission.errors import UsageError
from submission.output.runs import check_tag, format_run
from submission.rankings import rank_by_score

TOPICS = pd.DataFrame({"qid": ["2", "1"], "query": ["b", "a"]})


def make_scores(*rows: tuple[str, str, float]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["qid", "docno", "score"]).astype({"score": np.float32})


def test_written_scores_decrease_strictly() -> None:
    tiny = np.float32(1e-12)
    text = format_run(
        rank_by_score(make_scores(("1", "a", 1), ("1", "b", 1), ("1", "c", 1), ("1", "d", tiny), ("1", "e", -2e9)), TOPICS),
        "t-x",
    )
    lines = [line.split(" ") for line in text.splitlines()]
    assert lines[0] == ["1", "Q0", "a", "1", "1.0", "t-x"]
    written = [line[4] for line in lines]
    assert written[:3] == ["1.0", "0.99999994", "0.9999999"]
    assert written[4] == "-2000000000.0"
    assert not any("e" in score for score in written)
    parsed = [np.float32(score) for score in written]
    assert all(previous > current for previous, current in itertools.pairwise(parsed))
    assert parsed[3] == tiny


def test_ties_are_broken_by_minimal_decrements() -> None:
    below = np.nextafter(np.float32(1), np.float32(0))
    text = format_run(rank_by_score(make_scores(("1", "a", 1), ("1", "b", 1), ("1", "c", below), ("1", "d", 0.5)), TOPICS), "t")
    assert [line.split()[4] for line in text.splitlines()] == ["1.0", "0.99999994", "0.9999999", "0.5"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_scores_fail(value: float) -> None:
    run = make_scores(("1", "a", value), ("1", "b", 0)).assign(rank=[1, 2])
    with pytest.raises(ValueError, match="topic 1: scores must be finite"):
        format_run(run, "t")


@pytest.mark.parametrize(
    ("docnos", "ranks", "values"), [(["a", "a"], [1, 2], [2, 1]), (["a", "b"], [1, 3], [2, 1]), (["a", "b"], [1, 2], [1, 2])]
)
def test_invalid_rankings_fail(docnos: list[str], ranks: list[int], values: list[float]) -> None:
    run = pd.DataFrame({"qid": "1", "docno": docnos, "rank": ranks, "score": values})
    with pytest.raises(ValueError, match="topic 1"):
        format_run(run, "t")


@pytest.mark.parametrize("tag", ["a b", "", "ä", "a/b", "a\n"])
def test_invalid_tags_fail(tag: str) -> None:
    check_tag("aragorn-bm25")
    with pytest.raises(UsageError, match="--team"):
        check_tag(tag)
