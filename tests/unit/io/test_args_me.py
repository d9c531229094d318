"""Tests of the ids, stances and portals of args.me."""

import json

import pandas as pd
import pytest

from aragorn.cache import open_cache
from aragorn.io.collection import find_mismatched_ids, hash_java_string
from aragorn.io.dataset import Dataset
from aragorn.io.document_store import ArgumentMetadata, open_document_store
from tests.conftest import make_argument


def test_find_mismatched_ids_of_changed_texts():
    matching_id = f"S1-A{(31 * hash_java_string('they suffer') + hash_java_string('zoos are cruel')) % 2**32:x}"
    frame = pd.DataFrame({"docno": [matching_id, "S2-Aff", "c67482ba-2019-04-18T13:32:05Z-00000-000"],
                          "conclusion": "zoos are cruel", "premise": "they suffer"})  # fmt: skip
    assert hash_java_string("😀") == 1772899  # a surrogate pair
    docnos, hashed_count = find_mismatched_ids(frame)
    assert (docnos.tolist(), hashed_count) == (["S2-Aff"], 2)
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
        assert store.document_count == len(expected)
