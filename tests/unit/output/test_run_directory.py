from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from submission.errors import OutputError
from submission.output.run_directory import FINGERPRINT_FILE, RunDirectory
from submission.storage.atomic_files import write_atomic, write_directory_atomic

PRINT = {"input": "i", "code": "c"}
NAMES = ["a-x.txt"]


def write(directory: Path, name: str = "a-x.txt", content: str = "x\n", key: str = "k") -> None:
    with RunDirectory(directory) as output:
        output.resume(PRINT, NAMES, overwrite=False)
        output.write_run(name, content, key)


def test_finished_runs_are_recognised(tmp_path: Path) -> None:
    write(tmp_path / "new" / "out")
    with RunDirectory(tmp_path / "new" / "out") as output:
        output.resume(PRINT, NAMES, overwrite=False)
        assert output.is_complete("a-x.txt", "k")
        assert output.read_run("a-x.txt") == "x\n"
        assert not output.is_complete("a-y.txt", "k")


def test_changed_or_missing_file_is_unfinished(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, "a-y.txt")
    (tmp_path / "a-x.txt").write_text("y\n")
    (tmp_path / "a-y.txt").unlink()
    with RunDirectory(tmp_path) as output:
        output.resume(PRINT, NAMES, overwrite=False)
        assert not output.is_complete("a-x.txt", "k")
        assert not output.is_complete("a-y.txt", "k")


def test_changed_input_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    with (
        RunDirectory(tmp_path) as output,
        pytest.raises(OutputError, match=r"files made from another input \(a-x\.txt\).*--overwrite"),
    ):
        output.resume({**PRINT, "input": "other"}, NAMES, overwrite=False)
    assert (tmp_path / "a-x.txt").read_text() == "x\n"


def test_changed_checkpoint_fails(tmp_path: Path) -> None:
    write(tmp_path)
    with RunDirectory(tmp_path) as output:
        output.resume(PRINT, NAMES, overwrite=False)
        with pytest.raises(OutputError, match="another checkpoint, code, device or precision"):
            output.is_complete("a-x.txt", "other")
        output.resume(PRINT, NAMES, overwrite=True)
        assert not output.is_complete("a-x.txt", "other")


@pytest.mark.parametrize("name", ["run.txt", "a-x.txt"])
def test_unknown_run_is_not_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("theirs\n")
    with RunDirectory(tmp_path) as output, pytest.raises(OutputError, match="unknown origin"):
        output.resume(PRINT, NAMES, overwrite=False)


def test_unrelated_files_are_ignored(tmp_path: Path) -> None:
    (tmp_path / ".tracker").write_text("TIRA's\n")
    write(tmp_path)
    assert (tmp_path / ".tracker").exists()


def test_overwrite_removes_old_runs_with_the_first_new_run(tmp_path: Path) -> None:
    write(tmp_path, "a-x.txt")
    write(tmp_path, "a-y.txt")
    with RunDirectory(tmp_path) as output:
        output.resume({**PRINT, "input": "other"}, NAMES, overwrite=True)
        assert (tmp_path / "a-y.txt").exists()
        output.write_run("a-x.txt", "new\n", "k")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-x.txt", FINGERPRINT_FILE]
    assert json.loads((tmp_path / FINGERPRINT_FILE).read_text())["inputs"]["input"] == "other"


def test_kill_before_the_run_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(file: Path, content: bytes) -> None:
        write_atomic(file, content)
        if file.name == FINGERPRINT_FILE:
            raise KeyboardInterrupt

    monkeypatch.setattr("submission.storage.artifact_store.write_atomic", killed)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path)
    monkeypatch.undo()
    with RunDirectory(tmp_path) as output:
        output.resume(PRINT, NAMES, overwrite=False)
        assert not output.is_complete("a-x.txt", "k")


def test_second_process_fails(tmp_path: Path) -> None:
    with RunDirectory(tmp_path), pytest.raises(OutputError, match="another process"), RunDirectory(tmp_path):
        pass
    with RunDirectory(tmp_path):  # free again
        pass


def test_file_instead_of_output_directory(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(OutputError, match="not a writable directory"), RunDirectory(tmp_path / "out"):
        pass


def test_partial_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".run.txt.123.part").write_text("half")
    write(tmp_path)
    assert not list(tmp_path.glob(".*.part"))


def test_full_disk_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomic(tmp_path / "a", "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"a: cannot be written \(No space left on device\)"):
        write_atomic(tmp_path / "a", "new")
    with pytest.raises(OutputError, match="No space left"):
        write_directory_atomic(tmp_path / "d", {"a": b"new"})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_directory_is_replaced_atomically(tmp_path: Path) -> None:
    write_directory_atomic(tmp_path / "d", {"a": b"1", "b": b"1"})
    write_directory_atomic(tmp_path / "d", {"a": b"2"})
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "d").iterdir()] == [("a", b"2")]
    assert [path.name for path in tmp_path.iterdir()] == ["d"]
