"""What a second execution on the same corpus finds in --work."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from submission import data as data_module
from submission.data import Data
from submission.errors import OutputError
from submission.work import Work
from tests.conftest import WORDS, argument

ARGUMENTS = [
    argument("b", conclusion="Zoos are cruel", premise=f"{WORDS} naïve 東京"),
    argument("a", conclusion="Cruel zoos", premise=WORDS),
    argument("c", conclusion="golf", premise="short"),
    argument("d", conclusion="Golf is a sport", premise=WORDS),
    argument("e", conclusion="Cats and dogs", premise=WORDS),
    argument("f", conclusion="Taxes should rise", premise=WORDS),
]


@pytest.fixture
def directory(make_input: Callable[..., Path]) -> Path:
    return make_input(arguments=ARGUMENTS)


def stations(directory: Path, kept: Path | None) -> dict[str, object]:
    data = Data(directory)
    with Work(kept, directory) as work:
        data.keep_in(work)
        index = data.index
        return {
            "candidates": data.candidates.to_dict("records"),
            "premises": data.premises(["a", "c"]),
            "all": data.premises(["a", "b", "c"]),
            "size": data.size,
            "collection": data.collection,
            "docnos": index.docnos,
        }


def test_a_second_execution_reads_no_corpus_and_finds_the_same(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = stations(directory, None)
    assert plain["premises"] == {"a": WORDS, "c": "short"}
    assert [row["docno"] for row in plain["candidates"]] == ["a", "b", "d"]  # type: ignore[attr-defined]
    assert plain["all"]["b"] == f"{WORDS} naïve 東京"  # type: ignore[index]
    assert (plain["size"], plain["collection"]) == (6, ["a", "b", "d", "e", "f"])
    first = stations(directory, tmp_path / "work")
    monkeypatch.setattr(data_module, "read_corpus", None)  # calling it fails
    assert stations(directory, tmp_path / "work") == first == plain


def test_another_corpus_is_read(directory: Path, tmp_path: Path, make_input: Callable[..., Path]) -> None:
    stations(directory, tmp_path / "work")
    other = make_input(arguments=[*ARGUMENTS, argument("z", conclusion="golf clubs")], name="other")
    assert stations(other, tmp_path / "work")["size"] == 7


@pytest.mark.parametrize("name", ["conclusions.msgpack", "premises.sqlite"])
def test_damaged_files_are_refused(directory: Path, tmp_path: Path, name: str) -> None:
    stations(directory, tmp_path / "work")
    [file] = (tmp_path / "work").glob(f"corpus-*/{name}")
    file.write_bytes(file.read_bytes()[:1000] if name.endswith("sqlite") else b"\x93")
    with pytest.raises(OutputError, match=rf"{name}: damaged .*; remove "):
        stations(directory, tmp_path / "work")


def test_killed_before_the_index_was_written(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("submission.store.write_whole", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            stations(directory, tmp_path / "work")
    caplog.set_level(logging.INFO)
    assert stations(directory, tmp_path / "work") == stations(directory, None)
    assert "collection: 5 of 6" in caplog.text  # read again


def test_a_disk_that_cannot_be_written(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("submission.store.PREMISES", "absent/premises.sqlite")
    with pytest.raises(OutputError, match=r"cannot be written .*; free space or choose another --work"):
        stations(directory, tmp_path / "work")
