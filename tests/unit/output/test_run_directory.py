from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from submission.errors import OutputError
from submission.output.run_directory import FINGERPRINT_FILE, RunDirectory
from submission.storage.atomic_files import write_atomic

FINGERPRINT = {"input": "i", "code": "c"}
RUN_FILES = ["a-x.txt"]


def resume(output: RunDirectory, fingerprint: dict[str, str] | None = None, overwrite: bool = False) -> None:
    output.resume(fingerprint or FINGERPRINT, RUN_FILES, overwrite)


@pytest.fixture
def finished(tmp_path: Path) -> Iterator[RunDirectory]:
    """Write the runs x and y, and open their directory again."""
    (tmp_path / ".tracker").write_text("TIRA's\n")
    (tmp_path / ".run.txt.123.part").write_text("half")
    with RunDirectory(tmp_path / "new" / "..") as output:
        resume(output)
        for name in "xy":
            output.write_run(f"a-{name}.txt", f"{name}\n", "k")
    with RunDirectory(tmp_path) as output:
        yield output


def test_only_complete_runs_are_up_to_date(finished: RunDirectory) -> None:
    resume(finished)
    assert [finished.is_up_to_date(f"a-{name}.txt", "k") for name in "xyz"] == [True, True, False]
    assert finished.read_run("a-x.txt") == "x\n"
    assert not list(finished.path.glob(".*.part"))
    (finished.path / "a-x.txt").write_text("z\n")
    (finished.path / "a-y.txt").unlink()
    resume(finished)
    assert [finished.is_up_to_date(f"a-{name}.txt", "k") for name in "xy"] == [False, False]


def test_changed_input_fails(finished: RunDirectory) -> None:
    with pytest.raises(OutputError, match=r"files made from another input \(a-x\.txt, a-y\.txt\).*--overwrite"):
        resume(finished, {**FINGERPRINT, "input": "other"})
    assert (finished.path / "a-x.txt").read_text() == "x\n"


def test_changed_checkpoint_fails(finished: RunDirectory) -> None:
    resume(finished)
    with pytest.raises(OutputError, match="another checkpoint, code, device or precision"):
        finished.is_up_to_date("a-x.txt", "other")
    resume(finished, overwrite=True)
    assert not finished.is_up_to_date("a-x.txt", "other")


@pytest.mark.parametrize("name", ["run.txt", "a-x.txt"])
def test_unknown_run_is_not_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("theirs\n")
    with RunDirectory(tmp_path) as output, pytest.raises(OutputError, match="unknown origin"):
        resume(output)


def test_overwrite_removes_old_runs_with_the_first_new_run(finished: RunDirectory) -> None:
    resume(finished, {**FINGERPRINT, "input": "other"}, overwrite=True)
    assert (finished.path / "a-y.txt").exists()
    finished.write_run("a-x.txt", "new\n", "k")
    names = sorted(path.name for path in finished.path.iterdir() if path.is_file())
    assert names == [".tracker", "a-x.txt", FINGERPRINT_FILE]
    assert json.loads((finished.path / FINGERPRINT_FILE).read_text())["inputs"]["input"] == "other"


def test_locked_directory_fails(tmp_path: Path) -> None:
    with RunDirectory(tmp_path), pytest.raises(OutputError, match="another process"), RunDirectory(tmp_path):
        pass


def test_old_file_is_kept_if_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_on_full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    write_atomic(tmp_path / "a", "old")
    monkeypatch.setattr(os, "fsync", fail_on_full_disk)
    with pytest.raises(OutputError, match=r"a: cannot be written \(No space left on device\)"):
        write_atomic(tmp_path / "a", "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "old")]
