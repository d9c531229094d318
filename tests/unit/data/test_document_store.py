"""Tests of document stores, built from input files and reopened from the cache directory."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from submission.data import document_store
from submission.data.collection import select_collection
from submission.data.dataset import Dataset
from submission.data.document_store import open_document_store
from submission.errors import InputError, OutputError
from submission.storage.artifact_store import ArtifactStore
from submission.storage.cache_directory import CacheDirectory
from tests.conftest import PREMISE, make_argument

COLUMNS = ["docno", "conclusion", "premise"]
ARGUMENTS = [
    make_argument("b", conclusion="Zoos are cruel", premise=f"{PREMISE} naïve 東京"),
    make_argument("a", conclusion="Cruel zoos", premise=PREMISE),
    make_argument("c", conclusion="golf", premise="short"),
    make_argument("d", conclusion="Golf is a sport", premise=PREMISE),
]


@pytest.fixture
def directory(make_input: Callable[..., Path]) -> Path:
    return make_input(arguments=ARGUMENTS)


def query_all(directory: Path, cache_dir: Path | None) -> dict[str, object]:
    """Open a document store and return the results of its methods."""
    with CacheDirectory(cache_dir, directory) as cache:
        store = open_document_store(Dataset(directory), cache)
        return {
            "size": store.size,
            "collection": store.searchable_docnos,
            "conclusions": store.read_conclusions()[["docno", "conclusion"]].to_numpy().tolist(),
            "texts": store.read_texts(["c", "nowhere", "b"])[COLUMNS].to_numpy().tolist(),
            "nothing": store.read_texts(set())[COLUMNS].to_numpy().tolist(),
            "all": store.all_docnos(),
            "unknown": store.find_unknown(["a", "nowhere", "c", "nowhere"]),
        }


EXPECTED = {
    "size": 4,
    "collection": ["a", "b", "d"],
    "conclusions": [["a", "Cruel zoos"], ["b", "Zoos are cruel"], ["d", "Golf is a sport"]],
    "texts": [["c", "golf", "short"], ["b", "Zoos are cruel", f"{PREMISE} naïve 東京"]],
    "nothing": [],
    "all": {"a", "b", "c", "d"},
    "unknown": {"nowhere"},
}  # fmt: skip


def test_second_execution_reads_no_corpus(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert query_all(directory, None) == EXPECTED
    assert query_all(directory, tmp_path / "work") == EXPECTED
    monkeypatch.setattr("submission.data.args_me.read_arguments", None)  # calling it fails
    monkeypatch.setattr("submission.data.args_me.ArgsMeReader.iter_batches", None)
    assert query_all(directory, tmp_path / "work") == EXPECTED


LINES = "".join(f"{json.dumps(line)}\n" for line in ARGUMENTS)
TEXTS = "".join(f"{json.dumps({'docno': line['id'], 'text': line['conclusion']})}\n" for line in ARGUMENTS)
FORMATS = {
    "args-me.json": json.dumps({"arguments": ARGUMENTS}).encode(),
    "args-me.json, a byte order mark": b"\xef\xbb\xbf" + json.dumps({"arguments": ARGUMENTS}).encode(),
    "args-me.json.gz": gzip.compress(json.dumps({"arguments": ARGUMENTS}).encode()),
    "args-me.jsonl": LINES.encode(),
    "args-me.jsonl.gz": gzip.compress(LINES.encode()),
    "documents.jsonl": TEXTS.encode(),
    "documents.jsonl, no texts": "".join(f'{{"docno": "{name}", "text": " "}}\n' for name in "ab").encode(),
}


@pytest.mark.parametrize("format_name", FORMATS)
def test_documents_are_read_in_batches(
    format_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / format_name.partition(",")[0]).write_bytes(FORMATS[format_name])
    (tmp_path / "topics.xml").write_text("<topics><topic><number>1</number><title>Zoos?</title></topic></topics>")
    if format_name.startswith("documents"):
        (tmp_path / "queries.jsonl").write_text('{"qid": "1", "query": "Zoos?"}\n')
    dataset = Dataset(tmp_path)
    rows = dataset.documents[COLUMNS].to_numpy().tolist()
    caplog.set_level(logging.INFO)
    collection = select_collection(dataset.documents, dataset.reader.min_premise_words)["docno"].tolist()
    messages = [message for message in caplog.messages if message.startswith("collection: ")]
    caplog.clear()
    monkeypatch.setattr("submission.data.input_files.BATCH_SIZE", 3)
    monkeypatch.setattr(type(dataset.reader), "read_documents", lambda _: pytest.fail("read at once"))
    with CacheDirectory(None, tmp_path) as cache:
        store = open_document_store(Dataset(tmp_path), cache)
        assert store.collection_docnos == sorted(collection)
        assert store.read_texts([row[0] for row in rows]).to_numpy().tolist() == rows
    assert [message for message in caplog.messages if message.startswith("collection: ")] == messages
    assert len(messages) == 1
    assert [len(batch) for batch in dataset.reader.iter_batches()] == ([2] if format_name.endswith("no texts") else [3, 1])


def test_batches_report_issues_like_one_read(
    tmp_path: Path, make_input: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    repeated = make_input(arguments=[*ARGUMENTS, ARGUMENTS[0]], name="repeated")
    assert query_all(repeated, tmp_path / "work")["size"] == 4
    assert "dropped 1 duplicate argument (same id and text)" in caplog.text
    for index, invalid in enumerate([make_argument("b", "golf"), make_argument("b b"), {"id": "b"}]):
        directory = make_input(arguments=[*ARGUMENTS, invalid], name=f"invalid-{index}")
        _, [issue, *_] = Dataset(directory).reader.read_documents()
        with pytest.raises(InputError) as error:
            query_all(directory, tmp_path / "work")
        assert str(error.value) == issue
    assert len([*(tmp_path / "work").rglob("*.sqlite")]) == 1


def test_another_corpus_gets_its_own_store(directory: Path, tmp_path: Path, make_input: Callable[..., Path]) -> None:
    query_all(directory, tmp_path / "work")
    larger = make_input(arguments=[*ARGUMENTS, make_argument("z", conclusion="golf clubs")], name="larger")
    assert query_all(larger, tmp_path / "work")["size"] == 5


@pytest.mark.parametrize("name", ["collection.msgpack", "documents.sqlite"])
def test_damaged_files_are_rebuilt(directory: Path, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    query_all(directory, tmp_path / "work")
    [file] = (tmp_path / "work").glob(f"documents-*/{name}")
    content = file.read_bytes()
    for damaged in (content[:-1], b"", bytes([content[0] ^ 1]) + content[1:]):
        file.write_bytes(damaged)
        caplog.clear()
        assert query_all(directory, tmp_path / "work") == EXPECTED
        assert f"{name}: checksum mismatch, rebuilding" in caplog.text
        caplog.clear()
        assert query_all(directory, tmp_path / "work") == EXPECTED
        assert "rebuilding" not in caplog.text


def test_kill_before_last_file_rebuilds(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ArtifactStore, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            query_all(directory, tmp_path / "work")
    caplog.set_level(logging.INFO)
    assert query_all(directory, tmp_path / "work") == EXPECTED
    assert "collection: 3 of 4" in caplog.text  # the corpus is read again


def test_unwritable_disk_raises(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_store, "DOCUMENTS_FILE", "absent/documents.sqlite")
    with pytest.raises(OutputError, match=r"cannot be written .*; free disk space or choose another"):
        query_all(directory, tmp_path / "work")
