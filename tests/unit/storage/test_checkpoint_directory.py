from __future__ import annotations

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from submission.errors import CheckpointError, OutputError
from submission.storage import atomic_files
from submission.storage.checkpoint_directory import PROVENANCE, read_provenance, verify_files, write_with_provenance


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_with_provenance(tmp_path / "mine", {"a": b"1", "b": b"2", "c": b"3"}, {"made": "here"})
    return tmp_path / "mine"


def test_missing_files_are_all_named(directory: Path) -> None:
    assert set(verify_files(directory, ("a", "b"))) == {"a", "b", "c"}
    (directory / "c").unlink()
    (directory / "a").unlink()
    with pytest.raises(CheckpointError, match=r"mine: missing a, c; restore"):
        verify_files(directory, ("a", "b"))
    (directory / PROVENANCE).unlink()
    with pytest.raises(CheckpointError, match=r"mine: missing a, provenance\.json; restore"):
        verify_files(directory, ("a", "b"))


def test_file_without_hash_raises(directory: Path) -> None:
    with pytest.raises(CheckpointError, match=r"provenance\.json: damaged \(lists no hash of d\)"):
        verify_files(directory, ("a", "d"))


def test_changed_file_raises(directory: Path) -> None:
    (directory / "b").write_text("x")
    with pytest.raises(CheckpointError, match=r"b: damaged \(SHA-256 is not d4735e3a265e…"):
        verify_files(directory, ("a",))


def test_missing_checkpoint_lists_available(directory: Path) -> None:
    with pytest.raises(CheckpointError, match="checkpoint not found; available: mine"):
        verify_files(directory.parent / "other", ("a",))


def verified_content(directory: Path) -> bytes:
    verify_files(directory, ("a",))
    return (directory / "a").read_bytes()


def test_directory_always_exists_during_rewrite(directory: Path) -> None:
    done = threading.Event()

    def watch() -> bool:
        exists = True
        while not done.is_set():
            exists &= directory.is_dir()
        return exists

    with ThreadPoolExecutor(1) as pool:
        watcher = pool.submit(watch)
        for index in range(100):
            write_with_provenance(directory, {"a": b"%d" % index}, {})
        done.set()
        assert watcher.result()
    assert verified_content(directory) == b"99"
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
