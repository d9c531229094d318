"""Tests of checkpoint directories: verification, and rewriting that never leaves an incomplete directory."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from submission.errors import CheckpointError, OutputError
from submission.storage import atomic_files
from submission.storage.checkpoint_directory import PROVENANCE, read_provenance, verify_files, write_with_provenance


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_with_provenance(tmp_path / "mine", {"a": b"1", "b": b"2", "c": b"3"}, {"made": "here"})
    return tmp_path / "mine"


@pytest.mark.parametrize(
    ("names", "change", "message"),
    [
        ("ab", lambda directory: [(directory / name).unlink() for name in "ca"], r"mine: missing a, c; restore"),
        (
            "ab",
            lambda directory: (directory / PROVENANCE).unlink(),
            r"mine: missing provenance\.json; restore",
        ),
        ("ad", lambda directory: None, r"provenance\.json: damaged \(lists no hash of d\)"),
        ("a", lambda directory: (directory / "b").write_text("x"), r"b: damaged \(SHA-256 is not d4735e3a265e…"),
        ("a", lambda directory: directory.rename(directory.with_name("other")), "checkpoint not found; available: other"),
    ],
    ids=["missing", "without provenance", "unlisted", "changed", "renamed"],
)
def test_damage_raises_with_the_cause(directory: Path, names: str, change: Callable[[Path], object], message: str) -> None:
    assert set(verify_files(directory, ("a", "b"))) == {"a", "b", "c"}
    change(directory)
    with pytest.raises(CheckpointError, match=message):
        verify_files(directory, names)


def verified_content(directory: Path) -> bytes:
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
    assert verified_content(directory) == b"39"
    assert [*directory.parent.iterdir()] == [directory]


@pytest.mark.parametrize("step", ["before", "between", "after"])
@pytest.mark.parametrize("can_exchange", [True, False])
def test_kill_during_rewrite_leaves_complete_directory(
    directory: Path, step: str, can_exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if not can_exchange:
            patch.setattr(atomic_files, "_exchange", lambda first, second: False)
        rmtree, replace, renames = shutil.rmtree, Path.replace, list[Path]()

        def remove(path: Path, **options: bool) -> None:
            """Remove a directory, unless the process would by now be killed."""
            if not (directory.with_name(".mine.new") / PROVENANCE).exists() and not renames:
                rmtree(path, **options)

        def rename(path: Path, target: Path) -> Path:
            if path.is_dir() and len(renames) == {"before": 0, "between": 1, "after": 2}[step]:
                raise Killed
            if path.is_dir():
                renames.append(path)
            return replace(path, target)

        patch.setattr(shutil, "rmtree", remove)
        patch.setattr(Path, "replace", rename)
        if can_exchange and step == "before":
            patch.setattr(atomic_files, "_exchange", kill)
        try:
            write_with_provenance(directory, {"a": b"new"}, {})
        except Killed:
            assert can_exchange == (step == "before") or not can_exchange
    read_provenance(directory)
    assert verified_content(directory) == (b"new" if step == "after" or (can_exchange and step == "between") else b"1")
    write_with_provenance(directory, {"a": b"newer"}, {})
    assert verified_content(directory) == b"newer"
    assert [*directory.parent.iterdir()] == [directory]


def test_full_disk_keeps_old_directory(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="free disk space"):
        write_with_provenance(directory, {"a": b"new"}, {})
    assert verified_content(directory) == b"1"
