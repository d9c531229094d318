"""Documents from the input's files, and from --work in a second execution."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from submission.data import document_store as module
from submission.data.collection import select_collection
from submission.data.dataset import Dataset
from submission.data.document_store import COLUMNS, open_document_store
from submission.errors import InputError, OutputError
from submission.storage.artifact_store import ArtifactStore
from submission.storage.cache_directory import CacheDirectory
from tests.conftest import PREMISE, argument

ARGUMENTS = [
    argument("b", conclusion="Zoos are cruel", premise=f"{PREMISE} naïve 東京"),
    argument("a", conclusion="Cruel zoos", premise=PREMISE),
    argument("c", conclusion="golf", premise="short"),
    argument("d", conclusion="Golf is a sport", premise=PREMISE),
]


@pytest.fixture
def directory(make_input: Callable[..., Path]) -> Path:
    return make_input(arguments=ARGUMENTS)


def told(directory: Path, kept: Path | None) -> dict[str, object]:
    """All that documents tell."""
    with CacheDirectory(kept, directory) as work:
        found = open_document_store(Dataset(directory), work)
        return {
            "size": found.size,
            "collection": found.searchable_docnos,
            "conclusions": found.read_conclusions()[["docno", "conclusion"]].to_numpy().tolist(),
            "texts": found.read_texts(["c", "nowhere", "b"])[COLUMNS].to_numpy().tolist(),
            "nothing": found.read_texts(set())[COLUMNS].to_numpy().tolist(),
            "all": found.all_docnos(),
            "unknown": found.find_unknown(["a", "nowhere", "c", "nowhere"]),
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


def test_documents_are_found_and_a_second_execution_reads_no_corpus(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(directory, None) == EXPECTED
    assert told(directory, tmp_path / "work") == EXPECTED
    monkeypatch.setattr("submission.data.args_me.read_arguments", None)  # calling it fails
    monkeypatch.setattr("submission.data.args_me.ArgsMe.parts", None)
    assert told(directory, tmp_path / "work") == EXPECTED


LINES = "".join(f"{json.dumps(line)}\n" for line in ARGUMENTS)
TEXTS = "".join(f"{json.dumps({'docno': line['id'], 'text': line['conclusion']})}\n" for line in ARGUMENTS)
FORMS = {
    "args-me.json": json.dumps({"arguments": ARGUMENTS}).encode(),
    "args-me.json, a byte order mark": b"\xef\xbb\xbf" + json.dumps({"arguments": ARGUMENTS}).encode(),
    "args-me.json.gz": gzip.compress(json.dumps({"arguments": ARGUMENTS}).encode()),
    "args-me.jsonl": LINES.encode(),
    "args-me.jsonl.gz": gzip.compress(LINES.encode()),
    "documents.jsonl": TEXTS.encode(),
    "documents.jsonl, no texts": "".join(f'{{"docno": "{name}", "text": " "}}\n' for name in "ab").encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_documents_are_read_a_part_at_a_time(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / form.partition(",")[0]).write_bytes(FORMS[form])
    (tmp_path / "topics.xml").write_text("<topics><topic><number>1</number><title>Zoos?</title></topic></topics>")
    if form.startswith("documents"):
        (tmp_path / "queries.jsonl").write_text('{"qid": "1", "query": "Zoos?"}\n')
    source = Dataset(tmp_path)
    whole = source.documents[COLUMNS].to_numpy().tolist()
    caplog.set_level(logging.INFO)
    collection = select_collection(source.documents, source.reader.shortest_premise)["docno"].tolist()
    said = [message for message in caplog.messages if message.startswith("collection: ")]
    caplog.clear()
    monkeypatch.setattr("submission.data.input_files.BATCH_SIZE", 3)
    monkeypatch.setattr(type(source.reader), "documents", lambda _: pytest.fail("read as a whole"))
    with CacheDirectory(None, tmp_path) as work:
        found = open_document_store(Dataset(tmp_path), work)
        assert found.collection_docnos == sorted(collection)
        assert found.read_texts([row[0] for row in whole]).to_numpy().tolist() == whole
    assert [message for message in caplog.messages if message.startswith("collection: ")] == said
    assert len(said) == 1
    assert [len(part) for part in source.reader.parts()] == ([2] if form.endswith("no texts") else [3, 1])


def test_what_is_refused_or_repeated_is_said_as_it_is_of_the_whole(
    tmp_path: Path, make_input: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    again = make_input(arguments=[*ARGUMENTS, ARGUMENTS[0]], name="again")
    assert told(again, tmp_path / "work")["size"] == 4
    assert "dropped 1 arguments repeated with the same text" in caplog.text
    others = [argument("b", "golf"), argument("b b"), {"id": "b"}]
    for number, other in enumerate(others):
        directory = make_input(arguments=[*ARGUMENTS, other], name=f"other-{number}")
        _, [fault, *_] = Dataset(directory).reader.documents()
        with pytest.raises(InputError) as refused:
            told(directory, tmp_path / "work")
        assert str(refused.value) == fault
    assert len([*(tmp_path / "work").rglob("*.sqlite")]) == 1


def test_another_corpus_is_read(directory: Path, tmp_path: Path, make_input: Callable[..., Path]) -> None:
    told(directory, tmp_path / "work")
    other = make_input(arguments=[*ARGUMENTS, argument("z", conclusion="golf clubs")], name="other")
    assert told(other, tmp_path / "work")["size"] == 5


@pytest.mark.parametrize("name", ["collection.msgpack", "documents.sqlite"])
def test_damaged_files_are_made_again(directory: Path, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    told(directory, tmp_path / "work")
    [file] = (tmp_path / "work").glob(f"documents-*/{name}")
    whole = file.read_bytes()
    for damaged in (whole[:-1], b"", bytes([whole[0] ^ 1]) + whole[1:]):
        file.write_bytes(damaged)
        caplog.clear()
        assert told(directory, tmp_path / "work") == EXPECTED
        assert f"{name}: checksum mismatch, rebuilding" in caplog.text
        caplog.clear()
        assert told(directory, tmp_path / "work") == EXPECTED
        assert "rebuilding" not in caplog.text


def test_killed_before_the_last_file_was_written(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ArtifactStore, "write_run", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            told(directory, tmp_path / "work")
    caplog.set_level(logging.INFO)
    assert told(directory, tmp_path / "work") == EXPECTED
    assert "collection: 3 of 4" in caplog.text  # read again


def test_a_disk_that_cannot_be_written(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DOCUMENTS_FILE", "absent/documents.sqlite")
    with pytest.raises(OutputError, match=r"cannot be written .*; free disk space or choose another"):
        told(directory, tmp_path / "work")
