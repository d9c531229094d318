"""What every stage gives."""

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
GOOD = [("2", "z", 1, 0.5), ("1", "b", 1, 3.0), ("1", "a", 2, 3.0)]


def scores(*rows: tuple[str, str, float]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["qid", "docno", "score"])


def rows(lists: pd.DataFrame) -> list[tuple[str, str, int, float]]:
    return list(lists.itertuples(index=False, name=None))


def test_rank_by_score_then_docno_and_topics_in_their_order() -> None:
    found = rank_by_score(scores(("1", "b", 1), ("1", "a", 1), ("1", "c", 2), ("2", "z", 0)), TOPICS)
    assert rows(found) == [("2", "z", 1, 0.0), ("1", "c", 1, 2.0), ("1", "a", 2, 1.0), ("1", "b", 3, 1.0)]
    assert found.columns.tolist() == COLUMNS
    assert [str(dtype) for dtype in found.dtypes] == ["object", "object", "int64", "float64"]


def test_ties_in_their_order() -> None:
    found = rank_by_score_stable(scores(("1", "b", 1), ("1", "a", 1), ("1", "c", 2)), TOPICS)
    assert found["docno"].tolist() == ["c", "b", "a"]


def test_cut_keeps_the_order() -> None:
    assert rows(truncate_rankings(rankings_from_rows(GOOD), 1)) == GOOD[:2]


def test_stored_lists_are_the_same() -> None:
    for lists in (rankings_from_rows(GOOD), rankings_from_rows([])):
        pd.testing.assert_frame_equal(decode_rankings(encode_rankings(lists)), lists)
    with pytest.raises(msgspec.MsgspecError):
        decode_rankings(encode_rankings(rankings_from_rows(GOOD))[:-3])


def test_good_lists_pass() -> None:
    validate_rankings(rankings_from_rows(GOOD), TOPICS, set())
    validate_rankings(rankings_from_rows([]), TOPICS, set())


@pytest.mark.parametrize(
    ("faulty", "words"),
    [
        ([*GOOD, ("3", "a", 1, 1.0)], "topic 3: not in the input"),
        ([GOOD[1], GOOD[0]], "topic 2: out of topic order"),
        ([GOOD[0], GOOD[1], ("1", "x", 2, 1.0)], "topic 1: unknown document .x, rank 2"),
        ([GOOD[0], GOOD[1], ("1", "b", 2, 1.0)], "topic 1: duplicate document"),
        ([GOOD[0], GOOD[1], ("1", "a", 3, 1.0)], "topic 1: ranks must be"),
        ([GOOD[0], ("1", "a", 1, float("nan"))], "topic 1: score not finite"),
        ([GOOD[0], GOOD[1], ("1", "a", 2, 3.5)], "topic 1: score increases .a, rank 2, score 3.5"),
    ],
)
def test_faults_are_named(faulty: list[tuple[str, str, int, float]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        validate_rankings(rankings_from_rows(faulty), TOPICS, {"x"})


def test_other_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="columns"):
        validate_rankings(rankings_from_rows(GOOD).drop(columns="rank"), TOPICS, set())
