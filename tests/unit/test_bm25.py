from __future__ import annotations

import math

import pandas as pd
import pytest

from submission.retrieval import bm25
from submission.retrieval.bm25 import candidates

CONCLUSIONS = {
    "d4": "Zoos are cruel",
    "d2": "zoos are CRUEL!",
    "d3": "Cruel zoos",
    "d1": "Golf is a sport",
    "d0": "Taxes are cruel to people who work",
    "d5": "Cats make better pets than dogs",
}
CORPUS = pd.DataFrame({"docno": list(CONCLUSIONS), "conclusion": list(CONCLUSIONS.values())})


def topics(*queries: str) -> pd.DataFrame:
    return pd.DataFrame({"qid": [str(n) for n in range(1, len(queries) + 1)], "query": list(queries)})


def test_order_ties_and_premises() -> None:
    found = candidates(topics("Are zoos cruel?", "golf"), CORPUS)
    # "cruel zoos" and "zoos cruel" tie: the normalised conclusion decides, then the docno.
    assert found[["qid", "docno", "rank"]].to_numpy().tolist() == [
        ["1", "d3", 1],
        ["1", "d2", 2],
        ["1", "d4", 3],
        ["1", "d0", 4],
        ["2", "d1", 1],
    ]
    scores = found["score"].tolist()
    assert scores[0] == scores[1] == scores[2] > scores[3] > 0


def test_scores_are_okapi() -> None:
    # 5 unique conclusions of 2, 2, 2, 4, 5 terms; "golf" is in one of length 2: idf ln((5-1+.5)/(1+.5)), k1 1.5, b .75
    score = candidates(topics("golf"), CORPUS)["score"][0]
    assert score == pytest.approx(math.log(4.5 / 1.5) * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 2 / 3)))


def test_at_most_a_hundred_conclusions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bm25.CONCLUSIONS == 100
    many = pd.DataFrame(
        {"docno": [f"d{n:03}" for n in range(400)], "conclusion": [f"zoo w{n:03}" for n in range(150)] + ["x"] * 250}
    )
    found = candidates(topics("zoo"), many)
    assert found["docno"].tolist() == [f"d{n:03}" for n in range(100)]


def test_a_topic_without_a_known_word_gets_nothing_and_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    found = candidates(topics("quux", "golf"), CORPUS)
    assert found["qid"].unique().tolist() == ["2"]
    assert "topic 1 (quux): no conclusion shares a word" in caplog.text


def test_all_topics_without_candidates() -> None:
    found = candidates(topics("quux"), CORPUS)
    assert found.empty
    assert found.columns.tolist() == ["qid", "docno", "rank", "score"]
