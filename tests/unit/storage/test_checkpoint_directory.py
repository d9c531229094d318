from __future__ import annotations

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


def test_all_that_is_missing_is_named_at_once(directory: Path) -> None:
    assert set(verify_files(directory, ("a", "b"))) == {"a", "b", "c"}
    (directory / "c").unlink()
    (directory / "a").unlink()
    with pytest.raises(CheckpointError, match=r"mine: missing a, c; restore"):
        verify_files(directory, ("a", "b"))
    (directory / PROVENANCE).unlink()
    with pytest.raises(CheckpointError, match=r"mine: missing a, provenance\.json; restore"):
        verify_files(directory, ("a", "b"))


def test_a_file_without_a_hash(directory: Path) -> None:
    with pytest.raises(CheckpointError, match=r"provenance\.json: damaged \(no hash of d\)"):
        verify_files(directory, ("a", "d"))


def test_a_changed_file(directory: Path) -> None:
    (directory / "b").write_text("x")
    with pytest.raises(CheckpointError, match=r"b: damaged \(SHA-256 is not d4735e3a265e…"):
        verify_files(directory, ("a",))


def test_no_such_directory_names_those_that_are_there(directory: Path) -> None:
    with pytest.raises(CheckpointError, match="checkpoint not found; available: mine"):
        verify_files(directory.parent / "other", ("a",))


def content(directory: Path) -> bytes:
    verify_files(directory, ("a",))
    return (directory / "a").read_bytes()


def test_a_directory_that_is_rewritten_is_there_at_any_moment(directory: Path) -> None:
    done = threading.Event()

    def look() -> bool:
        found = True
        while not done.is_set():
            found &= directory.is_dir()
        return found

    with ThreadPoolExecutor(1) as pool:
        always = pool.submit(look)
        for number in range(100):
            write_with_provenance(directory, {"a": b"%d" % number}, {})
        done.set()
        assert always.result()
    assert content(directory) == b"99"
    assert [*directory.parent.iterdir()] == [directory]


@pytest.mark.parametrize("step", ["before", "between", "after"])
@pytest.mark.parametrize("exchanges", [True, False])
def test_a_kill_while_a_directory_is_rewritten_leaves_a_complete_one(
    directory: Path, step: str, exchanges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if not exchanges:
            patch.setattr(atomic_files, "_exchange", lambda first, second: False)
        rmtree, replace, renamed = atomic_files.shutil.rmtree, Path.replace, list[Path]()

        def remove(path: Path, **options: bool) -> None:
            """A killed process removes nothing, but for what it removes before it begins."""
            if not (directory.with_name(".mine.new") / PROVENANCE).exists() and not renamed:
                rmtree(path, **options)

        def rename(path: Path, target: Path) -> Path:
            if path.is_dir() and len(renamed) == {"before": 0, "between": 1, "after": 2}[step]:
                raise Killed
            if path.is_dir():
                renamed.append(path)
            return replace(path, target)

        patch.setattr(atomic_files.shutil, "rmtree", remove)
        patch.setattr(Path, "replace", rename)
        if exchanges and step == "before":
            patch.setattr(atomic_files, "_exchange", killed)
        try:
            write_with_provenance(directory, {"a": b"new"}, {})
        except Killed:
            assert exchanges == (step == "before") or not exchanges
    read_provenance(directory)
    assert content(directory) == (b"new" if step == "after" or (exchanges and step == "between") else b"1")
    write_with_provenance(directory, {"a": b"newer"}, {})
    assert content(directory) == b"newer"
    assert [*directory.parent.iterdir()] == [directory]


def test_a_directory_that_cannot_be_written_stays(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files.os, "fsync", full)
    with pytest.raises(OutputError, match="free disk space"):
        write_with_provenance(directory, {"a": b"new"}, {})
    assert content(directory) == b"1"
