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


def test_finished_runs_are_known_again(tmp_path: Path) -> None:
    write(tmp_path / "new" / "out")
    with RunDirectory(tmp_path / "new" / "out") as output:
        output.resume(PRINT, NAMES, overwrite=False)
        assert output.is_complete("a-x.txt", "k")
        assert output.read_run("a-x.txt") == "x\n"
        assert not output.is_complete("a-y.txt", "k")


def test_a_changed_or_lost_file_is_not_finished(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, "a-y.txt")
    (tmp_path / "a-x.txt").write_text("y\n")
    (tmp_path / "a-y.txt").unlink()
    with RunDirectory(tmp_path) as output:
        output.resume(PRINT, NAMES, overwrite=False)
        assert not output.is_complete("a-x.txt", "k")
        assert not output.is_complete("a-y.txt", "k")


def test_another_input_is_refused_by_what_differs(tmp_path: Path) -> None:
    write(tmp_path)
    with (
        RunDirectory(tmp_path) as output,
        pytest.raises(OutputError, match=r"files made from another input \(a-x\.txt\).*--overwrite"),
    ):
        output.resume({**PRINT, "input": "other"}, NAMES, overwrite=False)
    assert (tmp_path / "a-x.txt").read_text() == "x\n"


def test_another_checkpoint_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    with RunDirectory(tmp_path) as output:
        output.resume(PRINT, NAMES, overwrite=False)
        with pytest.raises(OutputError, match="another checkpoint, code, device or precision"):
            output.is_complete("a-x.txt", "other")
        output.resume(PRINT, NAMES, overwrite=True)
        assert not output.is_complete("a-x.txt", "other")


@pytest.mark.parametrize("name", ["run.txt", "a-x.txt"])
def test_a_run_of_unknown_origin_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("theirs\n")
    with RunDirectory(tmp_path) as output, pytest.raises(OutputError, match="unknown origin"):
        output.resume(PRINT, NAMES, overwrite=False)


def test_other_files_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / ".tracker").write_text("TIRA's\n")
    write(tmp_path)
    assert (tmp_path / ".tracker").exists()


def test_overwrite_removes_all_old_runs_when_the_first_new_one_is_there(tmp_path: Path) -> None:
    write(tmp_path, "a-x.txt")
    write(tmp_path, "a-y.txt")
    with RunDirectory(tmp_path) as output:
        output.resume({**PRINT, "input": "other"}, NAMES, overwrite=True)
        assert (tmp_path / "a-y.txt").exists()
        output.write_run("a-x.txt", "new\n", "k")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-x.txt", FINGERPRINT_FILE]
    assert json.loads((tmp_path / FINGERPRINT_FILE).read_text())["inputs"]["input"] == "other"


def test_killed_before_the_run_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(file: Path, content: bytes) -> None:
        write_atomic(file, content)
        if file.name == FINGERPRINT_FILE:
            raise KeyboardInterrupt

    monkeypatch.setattr("submission.storage.artifact_store.write_whole", killed)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path)
    monkeypatch.undo()
    with RunDirectory(tmp_path) as output:
        output.resume(PRINT, NAMES, overwrite=False)
        assert not output.is_complete("a-x.txt", "k")


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with RunDirectory(tmp_path), pytest.raises(OutputError, match="another process"), RunDirectory(tmp_path):
        pass
    with RunDirectory(tmp_path):  # free again
        pass


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(OutputError, match="not a writable directory"), RunDirectory(tmp_path / "out"):
        pass


def test_parts_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".run.txt.123.part").write_text("half")
    write(tmp_path)
    assert not list(tmp_path.glob(".*.part"))


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_directory_is_replaced_as_a_whole(tmp_path: Path) -> None:
    write_directory_atomic(tmp_path / "d", {"a": b"1", "b": b"1"})
    write_directory_atomic(tmp_path / "d", {"a": b"2"})
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "d").iterdir()] == [("a", b"2")]
    assert [path.name for path in tmp_path.iterdir()] == ["d"]
