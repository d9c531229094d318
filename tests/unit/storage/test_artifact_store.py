"""Files that are made once."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from submission.errors import OutputError
from submission.storage import artifact_store as module
from submission.storage.artifact_store import MANIFEST, ArtifactStore, append, read_manifest
from submission.storage.locks import lock_directory


def array(directory: Path, value: float, key: str = "k") -> tuple[list[float], bool]:
    """What is there under a name, and whether it was made now."""
    made: list[bool] = []

    def make() -> np.ndarray:
        made.append(True)
        return np.full(3, value)

    return ArtifactStore(directory, {"key": key}, overwrite=True).load_or_build_array("a.npy", make).tolist(), bool(made)


def test_made_once(tmp_path: Path) -> None:
    assert array(tmp_path / "new", 1.0) == ([1.0] * 3, True)
    assert array(tmp_path / "new", 2.0) == ([1.0] * 3, False)


def test_made_again_where_something_else_decides(tmp_path: Path) -> None:
    array(tmp_path, 1.0)
    assert array(tmp_path, 2.0, key="other") == ([2.0] * 3, True)
    assert array(tmp_path, 3.0) == ([3.0] * 3, True)


@pytest.mark.parametrize("damage", ["bit", "cut", "zip", "reversed", "empty", "gone"])
def test_made_again_where_its_bytes_are_others(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    ArtifactStore(tmp_path, {}).load_or_build_array("a.npy", lambda: np.array([1.0, 2.0]))
    file = tmp_path / "a.npy"
    whole = file.read_bytes()
    np.save(file, np.array([2.0, 1.0]))
    contents = {
        "bit": bytes([*whole[:-1], whole[-1] ^ 1]), "cut": whole[:-8], "zip": b"PK\x03\x04", "reversed": file.read_bytes(),
        "empty": b"",
    }  # fmt: skip
    file.unlink() if damage == "gone" else file.write_bytes(contents[damage])
    assert ArtifactStore(tmp_path, {}).load_or_build_array("a.npy", lambda: np.array([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert file.read_bytes() == whole
    assert ("a.npy: checksum mismatch, rebuilding" in caplog.text) == (damage != "gone")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"files": {"a.npy": 3}}', '{"files": {"a.npy": {"key": 1}}}', "[" * 10**5]
)
def test_a_damaged_record_knows_nothing(tmp_path: Path, content: str) -> None:
    array(tmp_path, 1.0)
    (tmp_path / MANIFEST).write_text(content)
    assert array(tmp_path, 2.0) == ([2.0] * 3, True)


def test_files_that_are_made_together(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    def write(file: Path) -> None:
        file.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match=r"cannot be written \(No space left on device\)"):
        ArtifactStore(tmp_path, {}).build_files(["a"], write)
    assert not list(tmp_path.iterdir())


def test_killed_between_record_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", lambda old, new: killed() if new.name == "a" else Path(old).rename(new))
        with pytest.raises(KeyboardInterrupt):
            ArtifactStore(tmp_path, {}).build_files(["a"], lambda file: file.write_text("1"))
    assert "a" in read_manifest(tmp_path / MANIFEST).files
    [file] = ArtifactStore(tmp_path, {}).build_files(["a"], lambda file: file.write_text("2"))
    assert file.read_text() == "2"


def test_other_files_are_refused_and_replaced_only_when_asked(tmp_path: Path) -> None:
    ArtifactStore(tmp_path, {"input": "a", "seed": 1}).write("x", "old")
    ArtifactStore(tmp_path, {"input": "a", "seed": 1}).write("y", "old")
    with pytest.raises(
        OutputError, match=r"files made from another seed \(x, y\); choose another directory or use --overwrite"
    ):
        ArtifactStore(tmp_path, {"input": "a", "seed": 2})
    other = ArtifactStore(tmp_path, {"input": "a", "seed": 2}, overwrite=True)
    assert (tmp_path / "y").exists()
    other.write("x", "new")
    assert sorted(file.name for file in tmp_path.iterdir()) == [MANIFEST, "x"]
    assert json.loads((tmp_path / MANIFEST).read_text())["decided_by"] == {"input": "a", "seed": 2}


def test_a_key_decides_a_file_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    ArtifactStore(tmp_path, {}).write("x", "1", "first")
    kept = ArtifactStore(tmp_path, {})
    assert (kept.valid_key("x"), kept.valid_key("y"), "x" in kept, "y" in kept) == ("first", None, True, False)
    assert not caplog.text


JOURNAL = f"{MANIFEST}.journal"


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JOURNAL_THRESHOLD", 4)


@pytest.mark.usefixtures("_small")
def test_a_long_record_is_appended_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: list[int] = []
    write_whole = module.write_atomic

    def told(file: Path, content: bytes) -> None:
        whole.append(len(read_manifest(tmp_path / MANIFEST).files) + 1)
        write_whole(file, content)

    monkeypatch.setattr(module, "write_whole", told)
    kept = ArtifactStore(tmp_path, {"key": 1})
    for number in range(40):
        kept.write(f"{number:02}", str(number))
        assert [*read_manifest(tmp_path / MANIFEST).files] == [f"{one:02}" for one in range(number + 1)]
    assert whole == [1, 2, 3, 4, 10, 22]  # of n files no more than about 2 n entries are written
    assert len((tmp_path / JOURNAL).read_bytes().split()) == 18
    again = ArtifactStore(tmp_path, {"key": 1})
    assert [again.load_or_build(f"{one:02}", lambda: b"made again") for one in range(40)] == [b"%d" % one for one in range(40)]
    again.write("00", "other")  # a process that finds a journal makes the record whole
    assert whole[6:] == [41]
    assert not (tmp_path / JOURNAL).exists()
    assert json.loads((tmp_path / MANIFEST).read_text())["files"].keys() == {f"{one:02}" for one in range(40)}


@pytest.mark.usefixtures("_small")
def test_a_journal_that_was_cut_loses_its_last_entry_alone(tmp_path: Path) -> None:
    kept = ArtifactStore(tmp_path, {"key": 1})
    for number in range(7):
        kept.write(str(number), "x")
    journal = tmp_path / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-5])
    again = ArtifactStore(tmp_path, {"key": 1})
    assert [str(number) in again for number in range(7)] == [True] * 6 + [False]
    again.write("6", "y")
    assert [str(number) in ArtifactStore(tmp_path, {"key": 1}) for number in range(7)] == [True] * 7


@pytest.mark.usefixtures("_small")
def test_a_damaged_entry_of_a_journal_loses_its_file_alone(tmp_path: Path) -> None:
    kept = ArtifactStore(tmp_path, {"key": 1})
    for number in range(7):
        kept.write(str(number), "x")
    journal = tmp_path / JOURNAL
    first, *others = filter(None, journal.read_bytes().split(b"\n"))
    for damaged in (b"[]", b"\xff", first[:-3], b"{}" * 9):
        journal.write_bytes(b"\n".join([damaged, *others, b""]))
        assert [str(number) in ArtifactStore(tmp_path, {"key": 1}) for number in range(7)] == [True] * 4 + [False] + [True] * 2


def test_several_processes_append_to_a_journal(tmp_path: Path) -> None:
    ArtifactStore(tmp_path, {})
    append(tmp_path / "a", b"1")
    with (tmp_path / JOURNAL).open("ab") as stream:
        stream.write(b'\n{"name": "b", "fi')  # a process was killed here
    append(tmp_path / "c", b"2")
    with ProcessPoolExecutor(4) as pool:
        list(pool.map(append, [tmp_path / f"{number}" for number in range(40)], [b"%d" % number for number in range(40)]))
    kept = ArtifactStore(tmp_path, {})
    assert [kept.read(name) for name in ("a", "b", "c", *map(str, range(40)))] == [
        b"1",
        None,
        b"2",
        *(b"%d" % n for n in range(40)),
    ]
    kept.write("d", "3")
    assert not (tmp_path / JOURNAL).exists()
    assert ArtifactStore(tmp_path, {}).read("39") == b"39"


@pytest.mark.usefixtures("_small")
def test_a_full_disk_while_it_is_appended_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ArtifactStore(tmp_path, {})
    for number in range(6):
        kept.write(str(number), "x")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "fsync", lambda file, sync=module.os.fsync: full() if "journal" in name(file) else sync(file))
        with pytest.raises(OutputError, match=r"cannot be written \(No space left on device\)"):
            kept.write("6", "x")
    with (tmp_path / JOURNAL).open("ab") as stream:
        stream.write(b"half an en")
    kept.write("6", "y")
    assert not (tmp_path / JOURNAL).exists()
    assert ArtifactStore(tmp_path, {}).load_or_build("6", lambda: b"made again") == b"y"


def name(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


@pytest.mark.usefixtures("_small")
def test_the_journal_of_other_files_goes_with_them(tmp_path: Path) -> None:
    kept = ArtifactStore(tmp_path, {"key": 1})
    for number in range(7):
        kept.write(str(number), "x")
    other = ArtifactStore(tmp_path, {"key": 2}, overwrite=True)
    assert "0" not in other
    other.write("0", "y")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0", MANIFEST]
    assert [*read_manifest(tmp_path / MANIFEST).files] == ["0"]


def test_a_held_directory(tmp_path: Path) -> None:
    with (
        lock_directory(tmp_path),
        pytest.raises(OutputError, match="in use by another process; wait"),
        lock_directory(tmp_path),
    ):
        pass
    with lock_directory(tmp_path), pytest.raises(BlockingIOError), lock_directory(tmp_path.parent):
        raise BlockingIOError  # somebody else's
    with pytest.raises(OutputError, match="not a writable directory"), lock_directory(tmp_path / "nowhere"):
        pass


def test_a_mount_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("submission.storage.locks.fcntl.flock", refuse)
    with pytest.raises(OutputError, match="cannot be locked"), lock_directory(tmp_path):
        pass


def test_what_killed_processes_left_goes_and_nothing_else(tmp_path: Path) -> None:
    names = [".a.123.part", ".b.7.part", ".c.9.part", ".a.part", "a.1.part", ".a.x.part", ".notes.part"]
    for name in names:
        (tmp_path / name).touch()
    kept = ArtifactStore(tmp_path, {}, expected_names=["a"])
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(names[1:])
    kept.write("b", "x")
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([*names[2:], "b", MANIFEST])
