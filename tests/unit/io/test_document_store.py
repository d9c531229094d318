"""Tests of document stores: texts, ids, stances and portals, read in batches or from the cache."""

import json
import logging
import sqlite3
from contextlib import closing

import pandas as pd
import pytest

from aragorn.cache import open_cache
from aragorn.io.collection import find_mismatched_ids, hash_java_string, select_collection
from aragorn.io.dataset import Dataset
from aragorn.io.document_store import (
    ArgumentMetadata,
    create_database,
    fetch_rows,
    open_document_store,
)
from aragorn.io.files import BATCH_SIZE
from tests.conftest import PREMISE, make_argument

COLUMNS = ["docno", "conclusion", "premise"]
ARGUMENTS = [
    make_argument("b", conclusion="Zoos are cruel", premise=f"{PREMISE} naïve 東京"),
    make_argument("a", conclusion="Cruel zoos", premise=" ".join(["w"] * 15)),
    make_argument("c", conclusion="golf", premise=" ".join(["w"] * 14)),
    make_argument("d", conclusion="Golf is a sport", premise=PREMISE),
    make_argument("e", conclusion="Empty", premise=" "),
]


@pytest.fixture
def directory(make_input):
    return make_input(arguments=ARGUMENTS)


def query_all(directory, cache_dir):
    """Open a document store and return the result of each method."""
    with open_cache(cache_dir, directory) as cache:
        store = open_document_store(Dataset(directory), cache)
        return {
            "size": store.n_documents,
            "collection": store.searchable_docnos,
            "conclusions": store.read_conclusions()[["docno", "conclusion"]].to_numpy().tolist(),
            "texts": store.read_texts(["d", "nowhere", "b"])[COLUMNS].to_numpy().tolist(),
            "all": store.read_all_docnos(),
            "unknown": store.find_unknown(["a", "nowhere", "c", "nowhere"]),
        }


EXPECTED = {
    "size": 5, "collection": ["a", "b", "d"],
    "conclusions": [["a", "Cruel zoos"], ["b", "Zoos are cruel"], ["d", "Golf is a sport"]],
    "texts": [["d", "Golf is a sport", PREMISE], ["b", "Zoos are cruel", f"{PREMISE} naïve 東京"]],
    "all": {"a", "b", "c", "d", "e"}, "unknown": {"nowhere"},
}  # fmt: skip


def test_second_execution_reads_no_corpus(directory, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    assert query_all(directory, None) == query_all(directory, tmp_path / "work") == EXPECTED
    excluded = "1 with empty premise, 1 shorter than 15 words"
    assert f"3 of 5 arguments (excluded: {excluded})" in caplog.text
    monkeypatch.setattr("aragorn.io.touche.read_arguments", None)  # calling it fails
    assert query_all(directory, tmp_path / "work") == EXPECTED


@pytest.mark.parametrize("name", ["args-me.json", "args-me.jsonl", "documents.jsonl"])
def test_batches_equal_documents_read_at_once(name, tmp_path):
    arguments = [make_argument(f"a{n}") for n in range(BATCH_SIZE + 3)]
    texts = [{"docno": f"a{n}", "text": str(n % 7 or " ")} for n in range(BATCH_SIZE + 3)]
    lines = [json.dumps(row) for row in (texts if name == "documents.jsonl" else arguments)]
    is_object = name == "args-me.json"
    content = json.dumps({"arguments": arguments}) if is_object else "\n".join(lines)
    (tmp_path / name).write_text(content)
    dataset = Dataset(tmp_path, has_topics=False)
    rows = dataset.documents[COLUMNS].to_numpy().tolist()
    collection = select_collection(dataset.documents, dataset.min_premise_words)["docno"].tolist()
    assert [len(batch) for batch in dataset.iter_batches()] == [BATCH_SIZE, 3]
    with open_cache(None, tmp_path) as cache:
        store = open_document_store(dataset, cache)
        assert store.collection_docnos == sorted(collection)
        assert store.read_texts([row[0] for row in rows]).to_numpy().tolist() == rows


def test_databases_need_no_locks(tmp_path):
    file = tmp_path / "caf\udce9?#.sqlite"
    with closing(sqlite3.connect(file)) as database:
        database.execute("create table numbers (value integer)")
        database.execute("begin exclusive")  # holds all locks
        assert fetch_rows(file, "select * from numbers") == []
        with create_database(file) as unlocked:
            unlocked.execute("insert into numbers values (7)")
        assert fetch_rows(file, "select * from numbers") == [(7,)]


def test_find_mismatched_ids_of_changed_texts():
    matching_id = f"S1-A{(31 * hash_java_string('they suffer') + hash_java_string('zoos are cruel')) % 2**32:x}"
    frame = pd.DataFrame({"docno": [matching_id, "S2-Aff", "c67482ba-2019-04-18T13:32:05Z-00000-000"],
                          "conclusion": "zoos are cruel", "premise": "they suffer"})  # fmt: skip
    assert hash_java_string("😀") == 1772899  # a surrogate pair
    docnos, n_hashed = find_mismatched_ids(frame)
    assert (docnos.tolist(), n_hashed) == (["S2-Aff"], 2)
    expected = [matching_id, "S2-Aff"]
    assert find_mismatched_ids(frame.assign(premise="They suffer"))[0].tolist() == expected


def build_argument(docno, *stances, **context):
    premises = [{"text": f"a premise of {docno}", "stance": stance} for stance in stances]
    return {**make_argument(docno), "premises": premises, "context": context}


def to_json(*arguments):
    return json.dumps({"arguments": arguments})


PRO_ARGUMENT = build_argument("a", "PRO", sourceDomain="www.example.org")
FILES = {
    "stances and source domains": (
        {
            "args-me.json": to_json(
                build_argument("a", "PRO", sourceDomain="debate.org"),
                build_argument("b", "CON", "CON", sourceDomain="parliament.example.org"), build_argument("c", "PRO", "CON"),
                build_argument("d", None, sourceDomain=None), build_argument("e", "<b>", sourceDomain=7), build_argument("f"),
            )
        },
        {
            "a": ArgumentMetadata("PRO", "debate.org"), "b": ArgumentMetadata("CON", "parliament.example.org"),
            "c": ArgumentMetadata(), "d": ArgumentMetadata(), "e": ArgumentMetadata(), "f": ArgumentMetadata(),
        },
    ),
    "portal by file name": ({"idebate.json": "\ufeff" + to_json(PRO_ARGUMENT)}, {"a": ArgumentMetadata("PRO", "idebate")}),
    "JSON lines with the stance of a premise or of the argument": (
        {"args-me.jsonl": f'{json.dumps(PRO_ARGUMENT)}\n{{"id": "b", "conclusion": "c", "argument": "x", "stance": "CON"}}\n'},
        {"a": ArgumentMetadata("PRO", "www.example.org"), "b": ArgumentMetadata("CON", "")},
    ),
    "two stances of the same argument": (
        {"args-me.json": to_json(PRO_ARGUMENT, build_argument("b"), build_argument("a", "CON"))},
        {"a": ArgumentMetadata("PRO", "www.example.org"), "b": ArgumentMetadata()},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_stances_and_portals_are_read(name, tmp_path):
    contents, expected = FILES[name]
    for file, text in contents.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    with open_cache(None, tmp_path) as cache:
        store = open_document_store(Dataset(tmp_path, has_topics=False), cache)
        assert store.read_metadata([*expected, "unknown"]) == expected
        assert store.n_documents == len(expected)
