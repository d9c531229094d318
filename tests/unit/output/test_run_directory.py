from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from submission.errors import OutputError
from submission.output.run_directory import FINGERPRINT_FILE, RunDirectory
from submission.storage.atomic_files import write_atomic, write_directory_atomic

FINGERPRINT = {"input": "i", "code": "c"}
RUN_FILES = ["a-x.txt"]


def write_sample_run(directory: Path, name: str = "a-x.txt", content: str = "x\n", key: str = "k") -> None:
    with RunDirectory(directory) as output:
        output.resume(FINGERPRINT, RUN_FILES, overwrite=False)
        output.write_run(name, content, key)


def test_complete_runs_are_recognised(tmp_path: Path) -> None:
    write_sample_run(tmp_path / "new" / "out")
    with RunDirectory(tmp_path / "new" / "out") as output:
        output.resume(FINGERPRINT, RUN_FILES, overwrite=False)
        assert output.is_up_to_date("a-x.txt", "k")
        assert output.read_run("a-x.txt") == "x\n"
        assert not output.is_up_to_date("a-y.txt", "k")


def test_changed_or_missing_run_is_incomplete(tmp_path: Path) -> None:
    write_sample_run(tmp_path)
    write_sample_run(tmp_path, "a-y.txt")
    (tmp_path / "a-x.txt").write_text("y\n")
    (tmp_path / "a-y.txt").unlink()
    with RunDirectory(tmp_path) as output:
        output.resume(FINGERPRINT, RUN_FILES, overwrite=False)
        assert not output.is_up_to_date("a-x.txt", "k")
        assert not output.is_up_to_date("a-y.txt", "k")


def test_changed_input_fails(tmp_path: Path) -> None:
    write_sample_run(tmp_path)
    with (
        RunDirectory(tmp_path) as output,
        pytest.raises(OutputError, match=r"files made from another input \(a-x\.txt\).*--overwrite"),
    ):
        output.resume({**FINGERPRINT, "input": "other"}, RUN_FILES, overwrite=False)
    assert (tmp_path / "a-x.txt").read_text() == "x\n"


def test_changed_checkpoint_fails(tmp_path: Path) -> None:
    write_sample_run(tmp_path)
    with RunDirectory(tmp_path) as output:
        output.resume(FINGERPRINT, RUN_FILES, overwrite=False)
        with pytest.raises(OutputError, match="another checkpoint, code, device or precision"):
            output.is_up_to_date("a-x.txt", "other")
        output.resume(FINGERPRINT, RUN_FILES, overwrite=True)
        assert not output.is_up_to_date("a-x.txt", "other")


@pytest.mark.parametrize("name", ["run.txt", "a-x.txt"])
def test_unknown_run_is_not_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("theirs\n")
    with RunDirectory(tmp_path) as output, pytest.raises(OutputError, match="unknown origin"):
        output.resume(FINGERPRINT, RUN_FILES, overwrite=False)


def test_unrelated_files_are_ignored(tmp_path: Path) -> None:
    (tmp_path / ".tracker").write_text("TIRA's\n")
    write_sample_run(tmp_path)
    assert (tmp_path / ".tracker").exists()


def test_overwrite_removes_old_runs_with_the_first_new_run(tmp_path: Path) -> None:
    write_sample_run(tmp_path, "a-x.txt")
    write_sample_run(tmp_path, "a-y.txt")
    with RunDirectory(tmp_path) as output:
        output.resume({**FINGERPRINT, "input": "other"}, RUN_FILES, overwrite=True)
        assert (tmp_path / "a-y.txt").exists()
        output.write_run("a-x.txt", "new\n", "k")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-x.txt", FINGERPRINT_FILE]
    assert json.loads((tmp_path / FINGERPRINT_FILE).read_text())["inputs"]["input"] == "other"


def test_run_is_incomplete_after_a_kill_before_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_and_interrupt(file: Path, content: bytes) -> None:
        write_atomic(file, content)
        if file.name == FINGERPRINT_FILE:
            raise KeyboardInterrupt

    monkeypatch.setattr("submission.storage.artifact_store.write_atomic", write_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_sample_run(tmp_path)
    monkeypatch.undo()
    with RunDirectory(tmp_path) as output:
        output.resume(FINGERPRINT, RUN_FILES, overwrite=False)
        assert not output.is_up_to_date("a-x.txt", "k")


def test_locked_directory_fails(tmp_path: Path) -> None:
    with RunDirectory(tmp_path), pytest.raises(OutputError, match="another process"), RunDirectory(tmp_path):
        pass
    with RunDirectory(tmp_path):  # unlocked again
        pass


def test_file_as_output_directory_fails(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(OutputError, match="not a writable directory"), RunDirectory(tmp_path / "out"):
        pass


def test_partial_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".run.txt.123.part").write_text("half")
    write_sample_run(tmp_path)
    assert not list(tmp_path.glob(".*.part"))


def test_old_file_is_kept_if_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomic(tmp_path / "a", "old")

    def fail_on_full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail_on_full_disk)
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
