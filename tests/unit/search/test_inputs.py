from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from submission.errors import InputError, SubmissionError, UsageError
from submission.search import load_system
from submission.search.inputs import build_corpus, build_topics
from tests.conftest import PREMISE

TEXTS = [f"zoos {PREMISE}", f"golf {PREMISE[5:]}, not cruel but good for the legs", "too short"]


def test_texts_are_numbered_and_used_as_conclusion_and_premise() -> None:
    expected = pd.DataFrame({"docno": ["1", "2", "3"], "conclusion": TEXTS, "premise": TEXTS}, dtype=object)
    pd.testing.assert_frame_equal(build_corpus(TEXTS).documents, expected)
    pd.testing.assert_frame_equal(build_topics(["a?", " b "]), pd.DataFrame({"qid": ["1", "2"], "query": ["a?", "b"]}))
    pd.testing.assert_frame_equal(build_topics("a?"), pd.DataFrame({"qid": ["1"], "query": ["a?"]}))


def test_frames_may_have_other_columns_and_indexes() -> None:
    frame = pd.DataFrame({"x": [1, 2], "premise": TEXTS[:2], "docno": ["b", "a"], "conclusion": ["c", "d"]}, index=[7, 9])
    assert build_corpus(frame).documents.to_dict("list") == {
        "docno": ["b", "a"],
        "conclusion": ["c", "d"],
        "premise": TEXTS[:2],
    }
    assert build_topics(pd.DataFrame({"query": ["a"], "qid": ["9"], "y": [0]})).to_dict("list") == {
        "qid": ["9"],
        "query": ["a"],
    }


def test_corpus_fingerprint_covers_all_texts() -> None:
    frame = pd.DataFrame({"docno": ["a", "b"], "conclusion": ["c", "d"], "premise": ["e", "f"]})
    fingerprints = {build_corpus(frame.replace({old: "x"})).corpus_fingerprint for old in ("", "a", "d", "e")}
    assert len(fingerprints) == 4
    assert build_corpus(frame.copy()).corpus_fingerprint == build_corpus(frame).corpus_fingerprint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("one text", "arguments is a single string; pass a list of texts, a data frame, or a Path"),
        ([], "arguments: empty; pass at least one argument"),
        (["a", None], "arguments: premise of 2 is None; expected a string"),
        (["a", "b\ud800"], "arguments: premise of 2 has a lone surrogate at index 1; remove it because UTF-8 cannot encode it"),
        (pd.DataFrame({"docno": ["a"]}), "arguments: missing column premise; expected docno, premise, found docno"),
        (pd.DataFrame({"docno": ["a", "a"], "premise": ["b", "c"]}), "arguments: duplicate docno a; ids must be unique"),
        (pd.DataFrame({"docno": ["a b"], "premise": ["b"]}), "arguments: invalid docno 'a b'; use a string without whitespace"),
        (pd.DataFrame({"docno": [7], "premise": ["b"]}), "arguments: invalid docno 7; use a string"),
        (Path("/nonexistent"), "/nonexistent: input directory not found"),
    ],
)
def test_invalid_arguments_raise(arguments: Any, message: str) -> None:
    with pytest.raises(SubmissionError, match=re.escape(message)):
        build_corpus(arguments)


@pytest.mark.parametrize(
    ("queries", "error", "message"),
    [
        ("", UsageError, "empty query; enter at least one word"),
        (["a", 7], InputError, "queries: query of 2 is 7; expected a string"),
        (pd.DataFrame({"qid": ["1"], "text": ["a"]}), InputError, "queries: missing column query; expected qid, query"),
    ],
)
def test_invalid_queries_raise(queries: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        build_topics(queries)


def test_search_texts() -> None:
    hits = load_system("dirichlet").search(TEXTS, ["Are zoos cruel?", "Is golf a sport?", "unknownword"])
    assert hits.columns.tolist() == ["qid", "docno", "rank", "score"]
    assert hits[["qid", "docno", "rank"]].to_numpy().tolist() == [["1", "1", 1], ["1", "2", 2], ["2", "2", 1]]


def test_no_queries_give_no_hits_and_load_no_checkpoint(tmp_path: Path) -> None:
    no_queries = pd.DataFrame({"qid": [], "query": []}, dtype=object)
    with load_system("sbert", checkpoints=tmp_path).index(TEXTS) as index:
        hits = index.search(no_queries)
    assert (hits.columns.tolist(), len(hits)) == (["qid", "docno", "rank", "score"], 0)
    assert index.closed


def test_index_stays_open_until_it_is_closed(tmp_path: Path) -> None:
    index = load_system("bm25_arguments").index(TEXTS, tmp_path / "work")
    first = index.search("zoos", depth=1)
    assert first["docno"].tolist() == ["1"]
    with pytest.raises(UsageError, match="invalid depth 0; expected an integer from 1 to 1000"):
        index.search("zoos", depth=0)
    with pytest.raises(SubmissionError, match="in use by another process"):
        load_system("dirichlet").index(TEXTS, tmp_path / "work")
    index.close()
    with load_system("bm25_arguments").index(TEXTS, tmp_path / "work") as reopened:
        pd.testing.assert_frame_equal(reopened.search("zoos", depth=1), first)


def test_only_short_premises_and_unknown_systems_raise() -> None:
    with pytest.raises(
        InputError, match="no usable argument among 1; expected a conclusion and a premise of at least 15 words"
    ):
        load_system("dirichlet").search(["too short"], "zoos")
    with pytest.raises(UsageError, match="unknown system 'dirichle'; did you mean 'dirichlet'"):
        load_system("dirichle")
