"""Tests of artifact stores and directory locks."""

from __future__ import annotations

import json
import logging
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from submission.errors import OutputError
from submission.storage import artifact_store as module
from submission.storage.artifact_store import MANIFEST, ArtifactStore, append_artifact, read_manifest
from submission.storage.locks import lock_directory


def load_array(directory: Path, value: float, key: str = "k") -> tuple[list[float], bool]:
    """Load or build an array, and return its values and whether it was built."""
    builds: list[bool] = []

    def build() -> np.ndarray:
        builds.append(True)
        return np.full(3, value)

    return ArtifactStore(directory, {"key": key}, overwrite=True).load_or_build_array("a.npy", build).tolist(), bool(builds)


def test_array_is_built_once(tmp_path: Path) -> None:
    assert load_array(tmp_path / "new", 1.0) == ([1.0] * 3, True)
    assert load_array(tmp_path / "new", 2.0) == ([1.0] * 3, False)


def test_array_is_rebuilt_for_another_key(tmp_path: Path) -> None:
    load_array(tmp_path, 1.0)
    assert load_array(tmp_path, 2.0, key="other") == ([2.0] * 3, True)
    assert load_array(tmp_path, 3.0) == ([3.0] * 3, True)


@pytest.mark.parametrize("damage", ["bit", "cut", "zip", "reversed", "empty", "gone"])
def test_damaged_array_is_rebuilt(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    ArtifactStore(tmp_path, {}).load_or_build_array("a.npy", lambda: np.array([1.0, 2.0]))
    file = tmp_path / "a.npy"
    content = file.read_bytes()
    np.save(file, np.array([2.0, 1.0]))
    contents = {
        "bit": bytes([*content[:-1], content[-1] ^ 1]), "cut": content[:-8], "zip": b"PK\x03\x04",
        "reversed": file.read_bytes(), "empty": b"",
    }  # fmt: skip
    file.unlink() if damage == "gone" else file.write_bytes(contents[damage])
    assert ArtifactStore(tmp_path, {}).load_or_build_array("a.npy", lambda: np.array([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert file.read_bytes() == content
    assert ("a.npy: checksum mismatch, rebuilding" in caplog.text) == (damage != "gone")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"files": {"a.npy": 3}}', '{"files": {"a.npy": {"key": 1}}}', "[" * 10**5]
)
def test_damaged_manifest_is_empty(tmp_path: Path, content: str) -> None:
    load_array(tmp_path, 1.0)
    (tmp_path / MANIFEST).write_text(content)
    assert load_array(tmp_path, 2.0) == ([2.0] * 3, True)


def test_build_files_builds_together(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def write(first: Path, second: Path) -> None:
        calls.append(1)
        first.write_text("1")
        second.write_text("2")

    for _ in range(2):
        files = ArtifactStore(tmp_path, {}).build_files(["a", "b"], write)
        assert [file.read_text() for file in files] == ["1", "2"]
    assert len(calls) == 1
    (tmp_path / "b").write_text("3")
    ArtifactStore(tmp_path, {}).build_files(["a", "b"], write)
    assert len(calls) == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b", MANIFEST]


def test_failed_build_leaves_no_files(tmp_path: Path) -> None:
    def write(file: Path) -> None:
        file.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match=r"cannot be written \(No space left on device\)"):
        ArtifactStore(tmp_path, {}).build_files(["a"], write)
    assert not list(tmp_path.iterdir())


def test_kill_between_manifest_and_rename_rebuilds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", lambda old, new: killed() if new.name == "a" else Path(old).rename(new))
        with pytest.raises(KeyboardInterrupt):
            ArtifactStore(tmp_path, {}).build_files(["a"], lambda file: file.write_text("1"))
    assert "a" in read_manifest(tmp_path / MANIFEST).files
    [file] = ArtifactStore(tmp_path, {}).build_files(["a"], lambda file: file.write_text("2"))
    assert file.read_text() == "2"


def test_files_of_other_inputs_need_overwrite(tmp_path: Path) -> None:
    ArtifactStore(tmp_path, {"input": "a", "seed": 1}).write("x", "old")
    ArtifactStore(tmp_path, {"input": "a", "seed": 1}).write("y", "old")
    with pytest.raises(OutputError, match=r"files made from another seed \(x, y\); choose another .* or use --overwrite"):
        ArtifactStore(tmp_path, {"input": "a", "seed": 2})
    new_store = ArtifactStore(tmp_path, {"input": "a", "seed": 2}, overwrite=True)
    assert (tmp_path / "y").exists()
    new_store.write("x", "new")
    assert sorted(file.name for file in tmp_path.iterdir()) == [MANIFEST, "x"]
    assert json.loads((tmp_path / MANIFEST).read_text())["inputs"] == {"input": "a", "seed": 2}


def test_valid_key_of_each_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    ArtifactStore(tmp_path, {}).write("x", "1", "first")
    store = ArtifactStore(tmp_path, {})
    assert (store.get_valid_key("x"), store.get_valid_key("y"), "x" in store, "y" in store) == ("first", None, True, False)
    assert not caplog.text


JOURNAL = f"{MANIFEST}.journal"


@pytest.fixture
def _low_journal_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JOURNAL_THRESHOLD", 4)


@pytest.mark.usefixtures("_low_journal_threshold")
def test_long_manifest_is_journaled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    write_atomic = module.write_atomic

    def count_and_write(file: Path, content: bytes) -> None:
        sizes.append(len(read_manifest(tmp_path / MANIFEST).files) + 1)
        write_atomic(file, content)

    monkeypatch.setattr(module, "write_atomic", count_and_write)
    store = ArtifactStore(tmp_path, {"key": 1})
    for index in range(40):
        store.write(f"{index:02}", str(index))
        assert [*read_manifest(tmp_path / MANIFEST).files] == [f"{i:02}" for i in range(index + 1)]
    assert sizes == [1, 2, 3, 4, 10, 22]  # after n files, about 2n entries have been written
    assert len((tmp_path / JOURNAL).read_bytes().split()) == 18
    reopened = ArtifactStore(tmp_path, {"key": 1})
    contents = [reopened.load_or_build(f"{index:02}", lambda: b"rebuilt") for index in range(40)]
    assert contents == [b"%d" % index for index in range(40)]
    reopened.write("00", "other")  # the first write after reopening merges the journal
    assert sizes[6:] == [41]
    assert not (tmp_path / JOURNAL).exists()
    assert json.loads((tmp_path / MANIFEST).read_text())["files"].keys() == {f"{index:02}" for index in range(40)}


@pytest.mark.usefixtures("_low_journal_threshold")
def test_truncated_journal_loses_only_last_entry(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, {"key": 1})
    for index in range(7):
        store.write(str(index), "x")
    journal = tmp_path / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-5])
    reopened = ArtifactStore(tmp_path, {"key": 1})
    assert [str(index) in reopened for index in range(7)] == [True] * 6 + [False]
    reopened.write("6", "y")
    assert [str(index) in ArtifactStore(tmp_path, {"key": 1}) for index in range(7)] == [True] * 7


@pytest.mark.usefixtures("_low_journal_threshold")
def test_damaged_journal_entry_loses_only_its_file(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, {"key": 1})
    for index in range(7):
        store.write(str(index), "x")
    journal = tmp_path / JOURNAL
    first, *remaining = filter(None, journal.read_bytes().split(b"\n"))
    for damaged in (b"[]", b"\xff", first[:-3], b"{}" * 9):
        journal.write_bytes(b"\n".join([damaged, *remaining, b""]))
        assert [str(index) in ArtifactStore(tmp_path, {"key": 1}) for index in range(7)] == [True] * 4 + [False] + [True] * 2


def test_processes_append_to_journal_concurrently(tmp_path: Path) -> None:
    ArtifactStore(tmp_path, {})
    append_artifact(tmp_path / "a", b"1")
    with (tmp_path / JOURNAL).open("ab") as stream:
        stream.write(b'\n{"name": "b", "fi')  # an incomplete entry, left by a killed process
    append_artifact(tmp_path / "c", b"2")
    with ProcessPoolExecutor(4) as pool:
        list(pool.map(append_artifact, [tmp_path / f"{index}" for index in range(40)], [b"%d" % index for index in range(40)]))
    store = ArtifactStore(tmp_path, {})
    contents = [b"1", None, b"2", *(b"%d" % index for index in range(40))]
    assert [store.read(name) for name in ("a", "b", "c", *map(str, range(40)))] == contents
    store.write("d", "3")
    assert not (tmp_path / JOURNAL).exists()
    assert ArtifactStore(tmp_path, {}).read("39") == b"39"


@pytest.mark.usefixtures("_low_journal_threshold")
def test_append_to_full_disk_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ArtifactStore(tmp_path, {})
    for index in range(6):
        store.write(str(index), "x")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda file, sync=os.fsync: full() if "journal" in file_name(file) else sync(file))
        with pytest.raises(OutputError, match=r"cannot be written \(No space left on device\)"):
            store.write("6", "x")
    with (tmp_path / JOURNAL).open("ab") as stream:
        stream.write(b"half an en")
    store.write("6", "y")
    assert not (tmp_path / JOURNAL).exists()
    assert ArtifactStore(tmp_path, {}).load_or_build("6", lambda: b"rebuilt") == b"y"


def file_name(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


@pytest.mark.usefixtures("_low_journal_threshold")
def test_overwrite_removes_old_journal(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, {"key": 1})
    for index in range(7):
        store.write(str(index), "x")
    new_store = ArtifactStore(tmp_path, {"key": 2}, overwrite=True)
    assert "0" not in new_store
    new_store.write("0", "y")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0", MANIFEST]
    assert [*read_manifest(tmp_path / MANIFEST).files] == ["0"]


def test_lock_directory_is_exclusive(tmp_path: Path) -> None:
    with (
        lock_directory(tmp_path),
        pytest.raises(OutputError, match="in use by another process; wait"),
        lock_directory(tmp_path),
    ):
        pass
    with lock_directory(tmp_path), pytest.raises(BlockingIOError), lock_directory(tmp_path.parent):
        raise BlockingIOError  # raised by the block, not by the lock
    with pytest.raises(OutputError, match="not a writable directory"), lock_directory(tmp_path / "nowhere"):
        pass


def test_lock_directory_without_lock_support(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("submission.storage.locks.fcntl.flock", fail)
    with pytest.raises(OutputError, match="cannot be locked"), lock_directory(tmp_path):
        pass


def test_only_stale_temporary_files_are_removed(tmp_path: Path) -> None:
    names = [".a.123.part", ".b.7.part", ".c.9.part", ".a.part", "a.1.part", ".a.x.part", ".notes.part"]
    for name in names:
        (tmp_path / name).touch()
    store = ArtifactStore(tmp_path, {}, expected_names=["a"])
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(names[1:])
    store.write("b", "x")
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([*names[2:], "b", MANIFEST])
