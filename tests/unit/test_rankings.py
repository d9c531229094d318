"""Tests of rankings: order, truncation, serialisation and validation."""

from __future__ import annotations

import msgspec
import pandas as pd
import pytest

from submission.rankings import (
    COLUMNS,
    decode_rankings,
    encode_rankings,
    rank_by_score,
    rank_by_score_stable,
    rankings_from_rows,
    truncate_rankings,
    validate_rankings,
)

TOPICS = pd.DataFrame({"qid": ["2", "1"], "query": ["b", "a"]})
VALID_ROWS = [("2", "z", 1, 0.5), ("1", "b", 1, 3.0), ("1", "a", 2, 3.0)]


def scores(*rows: tuple[str, str, float]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["qid", "docno", "score"])


def rows(rankings: pd.DataFrame) -> list[tuple[str, str, int, float]]:
    return list(rankings.itertuples(index=False, name=None))


def test_rank_by_score_breaks_ties_by_docno() -> None:
    rankings = rank_by_score(scores(("1", "b", 1), ("1", "a", 1), ("1", "c", 2), ("2", "z", 0)), TOPICS)
    assert rows(rankings) == [("2", "z", 1, 0.0), ("1", "c", 1, 2.0), ("1", "a", 2, 1.0), ("1", "b", 3, 1.0)]
    assert rankings.columns.tolist() == COLUMNS
    assert [str(dtype) for dtype in rankings.dtypes] == ["object", "object", "int64", "float64"]


def test_rank_by_score_stable_keeps_the_order_of_ties() -> None:
    rankings = rank_by_score_stable(scores(("1", "b", 1), ("1", "a", 1), ("1", "c", 2)), TOPICS)
    assert rankings["docno"].tolist() == ["c", "b", "a"]


def test_truncate_rankings_keeps_the_order() -> None:
    assert rows(truncate_rankings(rankings_from_rows(VALID_ROWS), 1)) == VALID_ROWS[:2]


def test_encode_rankings_round_trips() -> None:
    for rankings in (rankings_from_rows(VALID_ROWS), rankings_from_rows([])):
        pd.testing.assert_frame_equal(decode_rankings(encode_rankings(rankings)), rankings)
    with pytest.raises(msgspec.MsgspecError):
        decode_rankings(encode_rankings(rankings_from_rows(VALID_ROWS))[:-3])


def test_validate_rankings_accepts_valid_rankings() -> None:
    validate_rankings(rankings_from_rows(VALID_ROWS), TOPICS, set())
    validate_rankings(rankings_from_rows([]), TOPICS, set())


@pytest.mark.parametrize(
    ("invalid_rows", "message"),
    [
        ([*VALID_ROWS, ("3", "a", 1, 1.0)], "topic 3: not in the input"),
        ([VALID_ROWS[1], VALID_ROWS[0]], "topic 2: out of topic order"),
        ([VALID_ROWS[0], VALID_ROWS[1], ("1", "x", 2, 1.0)], "topic 1: unknown document .x, rank 2"),
        ([VALID_ROWS[0], VALID_ROWS[1], ("1", "b", 2, 1.0)], "topic 1: duplicate document"),
        ([VALID_ROWS[0], VALID_ROWS[1], ("1", "a", 3, 1.0)], "topic 1: ranks must be"),
        ([VALID_ROWS[0], ("1", "a", 1, float("nan"))], "topic 1: score not finite"),
        ([VALID_ROWS[0], VALID_ROWS[1], ("1", "a", 2, 3.5)], "topic 1: score increases .a, rank 2, score 3.5"),
    ],
)
def test_validate_rankings_names_the_error(invalid_rows: list[tuple[str, str, int, float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        validate_rankings(rankings_from_rows(invalid_rows), TOPICS, {"x"})


def test_validate_rankings_rejects_other_columns() -> None:
    with pytest.raises(ValueError, match="columns"):
        validate_rankings(rankings_from_rows(VALID_ROWS).drop(columns="rank"), TOPICS, set())
