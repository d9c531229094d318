"""Tests that rewriting never leaves an incomplete checkpoint directory."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from submission.errors import OutputError
from submission.storage import atomic_files
from submission.storage.checkpoint_directory import verify_files, write_with_provenance


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_with_provenance(tmp_path / "mine", {"a": b"1", "b": b"2", "c": b"3"}, {"made": "here"})
    return tmp_path / "mine"


def read_verified_content(directory: Path) -> bytes:
    verify_files(directory, ("a",))
    return (directory / "a").read_bytes()


def test_directory_always_exists_during_rewrite(directory: Path) -> None:
    done, states = threading.Event(), list[bool]()
    watcher = threading.Thread(target=lambda: [states.append(directory.is_dir()) for _ in iter(done.is_set, True)])
    watcher.start()
    for index in range(40):
        write_with_provenance(directory, {"a": b"%d" % index}, {})
    done.set()
    watcher.join()
    assert all(states)
    assert read_verified_content(directory) == b"39"
    assert [*directory.parent.iterdir()] == [directory]


@pytest.mark.parametrize("rename_count", [0, 1])
def test_kill_during_rewrite_keeps_the_old_directory(
    directory: Path, rename_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupt before or between the two renames that replace a directory if the file system cannot exchange two."""
    replace, renames = Path.replace, itertools.count()

    def replace_or_stop(path: Path, target: Path) -> Path:
        if path.is_dir() and next(renames) == rename_count:
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(atomic_files, "_exchange", lambda *_: False)
    monkeypatch.setattr(Path, "replace", replace_or_stop)
    with pytest.raises(KeyboardInterrupt):
        write_with_provenance(directory, {"a": b"new"}, {})
    directory.with_name(".mine.new").mkdir()  # as a killed process leaves it
    assert read_verified_content(directory) == b"1"
    write_with_provenance(directory, {"a": b"newer"}, {})
    assert read_verified_content(directory) == b"newer"
    assert [*directory.parent.iterdir()] == [directory]


def test_full_disk_keeps_old_directories_and_files(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OutputError, match="free disk space"):
        write_with_provenance(directory, {"a": b"new"}, {})
    with pytest.raises(OutputError, match="free disk space"):
        atomic_files.write_atomic(directory / "a", b"new")
    assert read_verified_content(directory) == b"1"
