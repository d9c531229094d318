"""Tests of artifact stores: reuse, damage, interruptions, the manifest and its journal."""

import json
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from aragorn.errors import OutputError
from aragorn.storage import artifact_store
from aragorn.storage.artifact_store import (
    JOURNAL_THRESHOLD,
    MANIFEST,
    ArtifactStore,
    SharedStore,
    read_manifest,
    write_journaled_artifact,
)

JOURNAL = f"{MANIFEST}.journal"


def test_files_are_built_together(tmp_path: Path) -> None:
    builds: list[int] = []

    def write(first: Path, second: Path) -> None:
        builds.append(1)
        first.write_text("1")
        second.write_text("2")

    def build() -> list[str]:
        return [
            file.read_text() for file in ArtifactStore(tmp_path, {}).build_files(["a", "b"], write)
        ]

    assert (build(), build(), len(builds)) == (["1", "2"], ["1", "2"], 1)
    (tmp_path / "b").write_text("3")
    assert (build(), len(builds)) == (["1", "2"], 2)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b", MANIFEST]


def test_failed_build_leaves_no_files(tmp_path: Path) -> None:
    def write(file: Path) -> None:
        file.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match=r"cannot be written \(No space left on device\)"):
        ArtifactStore(tmp_path, {}).build_files(["a"], write)
    assert not list(tmp_path.iterdir())


def test_files_of_other_inputs_need_overwrite(tmp_path: Path) -> None:
    for name in ("x", "y"):
        ArtifactStore(tmp_path, {"input": "a", "seed": 1}).write(name, "old")
    with pytest.raises(
        OutputError,
        match=r"2 files made with another seed \(x, y\); choose another .* or use --overwrite",
    ):
        ArtifactStore(tmp_path, {"input": "a", "seed": 2})
    new_store = ArtifactStore(tmp_path, {"input": "a", "seed": 2}, overwrite=True)
    assert (tmp_path / "y").exists()
    new_store.write("x", "new")
    assert sorted(file.name for file in tmp_path.iterdir()) == [MANIFEST, "x"]
    assert json.loads((tmp_path / MANIFEST).read_text())["inputs"] == {"input": "a", "seed": 2}


def test_only_stale_temporary_files_are_removed(tmp_path: Path) -> None:
    names = [
        ".a.123.part",
        ".b.7.part",
        ".c.9.part",
        ".a.part",
        "a.1.part",
        ".a.x.part",
        ".notes.part",
    ]
    for name in names:
        (tmp_path / name).touch()
    store = ArtifactStore(tmp_path, {}, expected_names=["a"])
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(names[1:])
    store.write("b", "x")
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([*names[2:], "b", MANIFEST])


# ---- the journal of a long manifest

FILE_COUNT = JOURNAL_THRESHOLD + 3  # the last three files are in the journal


@pytest.fixture
def long_store(tmp_path: Path) -> Path:
    """Write an artifact store with a journal and return its directory."""
    store = ArtifactStore(tmp_path, {"key": 1})
    for index in range(FILE_COUNT):
        store.write(str(index), str(index))
    return tmp_path


def list_file_numbers(directory: Path) -> set[int]:
    """Return the names, which are numbers, of the files in the manifest and its journal."""
    return {int(name) for name in read_manifest(directory / MANIFEST).files}


def test_long_manifest_is_rewritten_rarely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, write_atomic, sizes = (
        ArtifactStore(tmp_path, {"key": 1}),
        artifact_store.write_atomic,
        list[int](),
    )
    monkeypatch.setattr(
        artifact_store, "write_atomic", lambda *file: (sizes.append(index + 1), write_atomic(*file))
    )
    for index in range(210):  # the lambda reads `index`
        store.write(str(index), str(index))
    # after n files, about 2n entries have been written
    assert sizes == [*range(1, JOURNAL_THRESHOLD + 1), 202]
    assert list_file_numbers(tmp_path) == set(range(210))
    assert len((tmp_path / JOURNAL).read_bytes().split()) == 210 - 202


@pytest.mark.parametrize(("damage", "lost"), [
    (lambda lines: [*lines[:-1], lines[-1][:-5]], FILE_COUNT - 1), (lambda lines: [b"[]", *lines[1:], b""], FILE_COUNT - 3),
    (lambda lines: [b"\xff", *lines[1:], b""], FILE_COUNT - 3),
], ids=["incomplete", "another type", "not UTF-8"])  # fmt: skip
def test_damaged_journal_entry_loses_only_its_file(
    long_store: Path, damage: Callable[[list[bytes]], list[bytes]], lost: int
) -> None:
    (long_store / JOURNAL).write_bytes(
        b"\n".join(damage((long_store / JOURNAL).read_bytes().split()))
    )
    assert list_file_numbers(long_store) == {*range(FILE_COUNT)} - {lost}
    ArtifactStore(long_store, {"key": 1}).write(str(lost), "y")
    assert list_file_numbers(long_store) == {*range(FILE_COUNT)}
    assert not (long_store / JOURNAL).exists()  # merged by the write


def test_overwrite_removes_old_files_and_journal(long_store: Path) -> None:
    ArtifactStore(long_store, {"key": 2}, overwrite=True).write("0", "y")
    assert sorted(file.name for file in long_store.iterdir()) == ["0", MANIFEST]


def test_failed_append_is_repaired(long_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ArtifactStore(long_store, {"key": 1})
    store.write("0", "0")  # merges the journal; the next write starts another

    def fail_on_journal(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == JOURNAL:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_on_journal)
        with pytest.raises(OutputError, match=r"cannot be written \(No space left on device\)"):
            store.write("new", "x")
    with (long_store / JOURNAL).open("ab") as stream:
        stream.write(b"half an en")
    store.write("new", "y")
    assert not (long_store / JOURNAL).exists()
    assert ArtifactStore(long_store, {"key": 1}).load_or_build("new", lambda: b"rebuilt") == b"y"


def test_processes_append_to_journal_concurrently(tmp_path: Path) -> None:
    ArtifactStore(tmp_path, {})
    write_journaled_artifact(tmp_path / "a", b"1")
    with (tmp_path / JOURNAL).open("ab") as stream:
        stream.write(b'\n{"name": "b", "fi')  # an incomplete entry, left by a killed process
    write_journaled_artifact(tmp_path / "c", b"2")
    contents = {str(index): b"%d" % index for index in range(40)}
    with ProcessPoolExecutor(2) as pool:
        list(
            pool.map(
                write_journaled_artifact, [tmp_path / name for name in contents], contents.values()
            )
        )
    store = ArtifactStore(tmp_path, {})
    assert {name: store.read(name) for name in ("a", "b", "c", *contents)} == {
        "a": b"1",
        "b": None,
        "c": b"2",
        **contents,
    }
    store.write("d", "3")
    assert not (tmp_path / JOURNAL).exists()
    assert ArtifactStore(tmp_path, {}).read("39") == b"39"


def build_slowly(directory: Path, builds: Path) -> None:
    """Build two files of a shared store, and log each build."""

    def build() -> bytes:
        with builds.open("a") as log:
            log.write("built\n")
        time.sleep(0.2)
        return b"content"

    store = SharedStore(directory, "key")
    assert store.load_or_build("a", build) == b"content"
    [file] = store.build_files(["b"], lambda path: path.write_bytes(build()))
    assert file.read_bytes() == b"content"


def test_processes_build_a_shared_file_once(tmp_path: Path) -> None:
    store, context = SharedStore(tmp_path / "store", "key"), multiprocessing.get_context("fork")
    processes = [
        context.Process(target=build_slowly, args=(tmp_path / "store", tmp_path / "log"))
        for _ in range(4)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert (tmp_path / "log").read_text() == "built\n" * 2
    # although the store was opened before the file was built
    assert store.load_or_build("a", lambda: b"") == b"content"
    (tmp_path / "store" / ".a.123.part").touch()  # of a killed process
    SharedStore(tmp_path / "store", "key").write("c", "content")
    assert store.build_files(["c"], lambda path: None) == [tmp_path / "store" / "c"]
    assert {path.name for path in (tmp_path / "store").iterdir()} == {
        "a",
        "b",
        "c",
        "manifest.json",
    }
