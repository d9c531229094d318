"""Tests of systems in Python: corpora and queries as objects, and indexes that are kept or copied."""

import copy
import json
import multiprocessing
import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aragorn.errors import InputError, SubmissionError, UsageError
from aragorn.io import irds
from aragorn.io.dataset import Dataset
from aragorn.paths import CHECKPOINT_DIR
from aragorn.search import load_system
from aragorn.search.inputs import MAX_QUERY_CHARACTERS, build_corpus, build_topics, clean_query
from aragorn.systems.catalogue import SYSTEMS
from tests.conftest import PREMISE, SAMPLE

TEXTS = [f"zoos {PREMISE}", f"golf {PREMISE[5:]}, not cruel but good for the legs", "too short"]


def test_corpus_has_the_fingerprint_and_documents_of_rank(tmp_path):
    row = {"qid": "1", "query": "zoos", "docno": "d", "text": "zoos are cruel " * 8}
    row |= {"rank": 1, "score": 2.0}
    (tmp_path / "rerank.jsonl").write_text(json.dumps(row) + "\n")
    corpus = Dataset(tmp_path, has_topics=False)
    dataset = Dataset(tmp_path)
    assert corpus.corpus_fingerprint == dataset.corpus_fingerprint
    pd.testing.assert_frame_equal(corpus.documents, dataset.documents)


def test_documents_without_queries_are_a_corpus(tmp_path):
    (tmp_path / "documents.jsonl").write_text('{"docno": "1", "text": "zoos are cruel"}\n')
    assert list(Dataset(tmp_path, has_topics=False).documents["premise"]) == ["zoos are cruel"]
    with pytest.raises(InputError, match=r"no queries\.jsonl found"):
        Dataset(tmp_path)


def test_texts_are_numbered_and_used_as_conclusion_and_premise():
    expected = pd.DataFrame(
        {"docno": ["1", "2", "3"], "conclusion": TEXTS, "premise": TEXTS}, dtype=object
    )
    pd.testing.assert_frame_equal(build_corpus(TEXTS).documents, expected)
    pd.testing.assert_frame_equal(
        build_topics(["a?", " b "]), pd.DataFrame({"qid": ["1", "2"], "query": ["a?", "b"]})
    )
    pd.testing.assert_frame_equal(build_topics("a?"), pd.DataFrame({"qid": ["1"], "query": ["a?"]}))


def test_short_texts_are_searched_by_id():
    arguments = {"zoo": "zoos are cruel", 7: "golf courses"}
    hits = load_system("dirichlet").search(arguments, {"q7": "zoos", "q8": "golf"})
    expected = [["q7", "zoo"], ["q8", "7"]]
    assert hits[hits["rank"] == 1][["qid", "docno"]].to_numpy().tolist() == expected
    frame = pd.DataFrame({"docno": [*arguments], "text": [*arguments.values()]})
    pd.testing.assert_frame_equal(build_corpus(frame).documents, build_corpus(arguments).documents)


def test_frames_may_have_other_columns_and_indexes():
    columns = {"docno": ["b", "a"], "conclusion": ["c", "d"], "premise": TEXTS[:2]}
    frame = pd.DataFrame({"x": [1, 2], **dict(reversed(columns.items()))}, index=[7, 9])
    assert build_corpus(frame).documents.to_dict("list") == columns
    topics = build_topics(pd.DataFrame({"query": ["a"], "qid": ["9"], "y": [0]}))
    assert topics.to_dict("list") == {"qid": ["9"], "query": ["a"]}


@pytest.mark.parametrize(
    "ids",
    [
        [7, -10],
        np.array([7, -10], dtype=np.int16),
        pd.array([7, -10], dtype="Int64"),
        ["7", np.int64(-10)],
    ],
    ids=repr,
)
def test_integer_ids_become_strings(ids):
    topics = build_topics(pd.DataFrame({"qid": ids, "query": ["a", "b"]}))
    documents = build_corpus(pd.DataFrame({"docno": ids, "premise": ["a", "b"]})).documents
    assert [*topics["qid"]] == [*documents["docno"]] == ["7", "-10"]
    assert build_topics(pd.DataFrame({"qid": pd.Series([], dtype=int), "query": []})).empty


def test_corpus_fingerprint_covers_all_texts():
    frame = pd.DataFrame({"docno": ["a", "b"], "conclusion": ["c", "d"], "premise": ["e", "f"]})
    fingerprints = {
        build_corpus(frame.replace({old: "x"})).corpus_fingerprint for old in ("", "a", "d", "e")
    }
    assert len(fingerprints) == 4


@pytest.mark.parametrize(("build", "values", "message"), [
    (build_corpus, "one text", "arguments is a single string; pass a list of texts, a data frame, or a Path"),
    (build_corpus, [], "arguments: empty; pass at least one argument"),
    (build_corpus, ["a", "b\ud800"], "arguments: premise of 2 has a lone surrogate at index 1; remove it because UTF-8 cannot"),
    (build_corpus, {"docno": ["a"]}, "arguments: missing column premise; expected docno, premise instead of docno"),
    (build_corpus, {"docno": ["a", "a"], "premise": ["b", "c"]}, "arguments: duplicate docno a; ids must be unique"),
    (build_corpus, {"docno": ["7", 7], "premise": ["b", "c"]}, "arguments: duplicate docno 7; ids must be unique"),
    *(
        (build_corpus, {"docno": [docno], "premise": ["b"]}, f"arguments: invalid docno {docno!r}; use an integer, or a string")
        for docno in (7.0, True, None, "a b", "", b"a")
    ),
    (build_corpus, Path("/nonexistent"), "/nonexistent: input not found"),
    (build_topics, "", "empty query; enter at least one word"),
    (build_topics, "zoo " * MAX_QUERY_CHARACTERS, f"query has {4 * MAX_QUERY_CHARACTERS - 1} characters ('zoo zoo zoo"),
    (build_topics, ["a", 7], "queries: query of 2 is 7; expected a string"),
    (build_topics, {"qid": ["1"], "text": ["a"]}, "queries: missing column query; expected qid, query"),
])  # fmt: skip
def test_invalid_values_raise(build, values, message):
    with pytest.raises(SubmissionError, match=re.escape(message)):
        build(pd.DataFrame(values) if isinstance(values, dict) else values)


@pytest.mark.parametrize(("text", "expected"), [
    ("  Should zoos\tbe\nabolished? ", "Should zoos be abolished?"),
    ("zoos\0and\x1b[31mcages\x07", "zoos and [31mcages"), ("zoo\udcffs", "zoo\ufffds"),
    ("z" * MAX_QUERY_CHARACTERS, "z" * MAX_QUERY_CHARACTERS),
], ids=lambda text: ascii(text)[:20])  # fmt: skip
def test_whitespace_and_control_characters_are_replaced(text, expected):
    assert clean_query(text) == expected


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_clean_queries_equal_titles_of_topics(text):
    title = " ".join(text.split())  # as in titles of topics
    if title:
        assert clean_query(text) == title


def test_index_stays_open_until_it_is_closed(tmp_path):
    index = load_system("bm25_arguments").index(TEXTS, tmp_path / "work")
    hits = index.search("zoos", depth=1)
    assert hits["docno"].tolist() == ["1"]
    with pytest.raises(UsageError, match="invalid depth 0; expected an integer from 1 to 1000"):
        index.search("zoos", depth=0)
    with load_system("dirichlet").index(TEXTS, tmp_path / "work") as second:
        assert second.search("zoos", depth=1)["docno"].tolist() == ["1"]
    index.close()
    assert index.closed
    with load_system("bm25_arguments").index(TEXTS, tmp_path / "work") as reopened:
        pd.testing.assert_frame_equal(reopened.search("zoos", depth=1), hits)


ARGUMENTS = {"zoo": f"zoos {PREMISE}", "golf": f"golf courses {PREMISE}"}


@pytest.mark.parametrize("name", SYSTEMS)
def test_each_system_is_pickled_with_its_checkpoints(name):
    system = load_system(name, device="cpu")
    restored = pickle.loads(pickle.dumps(system))
    assert restored.system == system.system
    assert restored.checkpoints.directory == system.checkpoints.directory


@pytest.mark.parametrize(
    "clone", [lambda index: pickle.loads(pickle.dumps(index)), copy.copy, copy.deepcopy]
)
@pytest.mark.parametrize(
    ("name", "arguments", "cache_dir"), [("dirichlet", ARGUMENTS, "cache"), ("bm25", SAMPLE, None)]
)
def test_clone_returns_the_results_of_its_index(
    name, arguments, cache_dir, clone, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    index = load_system(name, device="cpu").index(arguments, cache_dir)
    expected = index.search("zoos")
    assert len(expected) > 0
    pickled = clone(index)
    monkeypatch.chdir("/")
    index.close()
    pd.testing.assert_frame_equal(pickled.search("zoos"), expected)
    pickled.close()


def test_clone_of_an_index_of_a_data_set_names_the_data_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = Path("irds:sample")
    monkeypatch.setattr(irds, "export", {name: SAMPLE}.__getitem__)
    with (
        load_system("bm25", device="cpu").index(name) as index,
        pickle.loads(pickle.dumps(index)) as restored,
    ):
        pd.testing.assert_frame_equal(restored.search("zoos"), index.search("zoos"))


def test_index_is_sent_to_a_spawned_process(tmp_path):
    with load_system("dirichlet", device="cpu").index(ARGUMENTS, tmp_path) as index:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            [result] = pool.map(index.search, ["zoos"])
        pd.testing.assert_frame_equal(result, index.search("zoos"))


def test_forked_process_leaves_the_index_of_its_parent():
    with load_system("dirichlet", device="cpu").index(ARGUMENTS) as index:
        expected = index.search("zoos")
        process = multiprocessing.get_context("fork").Process(target=index.close)
        process.start()
        process.join()
        pd.testing.assert_frame_equal(index.search("zoos"), expected)
    with pytest.raises(UsageError, match="the index is closed"):
        index.search("zoos")


def test_relative_checkpoints_are_found_from_another_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(CHECKPOINT_DIR.parent)
    system = load_system("dirichlet", checkpoints=CHECKPOINT_DIR.name, device="cpu")
    monkeypatch.chdir(tmp_path)
    assert len(system.search(ARGUMENTS, "zoos")) == 2
