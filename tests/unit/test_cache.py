"""Tests of the cache: reuse, damage, links, users, interruptions, and concurrent processes."""

import logging
import multiprocessing
import os
import random
import signal
import time

import numpy as np
import pytest

from aragorn.cache import CHECKSUMS_FILE, Cache, Parts, list_entries, open_cache
from aragorn.errors import OutputError
from aragorn.storage.locks import lock_file

FORK = multiprocessing.get_context("fork")
is_root = os.geteuid() == 0


def build_files(directory):
    (directory / "a").write_bytes(b"first file")
    (directory / "b").write_bytes(b"second file")


def read_all(cache, build):
    """Return the content of a payload, a directory and a part, which `build` makes if missing."""

    def fill(directory):
        build_files(directory)
        build()

    directory = cache.directory("files", "key", fill)
    part = cache.parts("parts", "key").get_or_build("0", build)
    return [cache.get_or_build("payload", "key", build), (directory / "b").read_bytes(), part]


CONTENTS = [b"content", b"second file", b"content"]


class Builder:
    """Function that returns a content and counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return b"content"


def test_results_are_built_once_and_found_by_their_key(tmp_path):
    build = Builder()
    assert [read_all(Cache(tmp_path), build) for _ in range(2)] == [CONTENTS] * 2
    assert build.calls == 3
    cache = Cache(tmp_path)
    for content in (b"", b"not built"):
        assert cache.get_or_build("payload", "other", lambda content=content: content) == b""
    parts = cache.parts("parts", "key")
    parts.write("1", b"x")
    assert (parts.get_names(), parts.read("2")) == (["0", "1"], None)
    assert cache.parts("parts", "other").get_names() == []
    names = [path.name.rpartition("-")[0] for path in sorted(tmp_path.iterdir())]
    assert names == ["files", "parts", "payload", "payload"]  # no lock, no temporary file
    assert (cache.has("payload"), cache.has("pay")) == (True, False)
    parts.remove()
    assert parts.get_names() == []


ARRAY = np.arange(3, dtype=np.float16)


def test_arrays_keep_their_type(tmp_path):
    for build in (lambda: ARRAY, lambda: ARRAY + 1):
        array = Parts(tmp_path).get_or_build_array("x", build)
        assert (array.dtype, array.tolist()) == (np.float16, [0, 1, 2])


def test_copies_of_other_entries_are_rebuilt(tmp_path):
    cache = Cache(tmp_path)
    cache.get_or_build("payload", "other", lambda: b"other")
    directory = cache.directory("files", "other", build_files)
    (directory / "b").write_bytes(b"x")
    directory = cache.directory("files", "other", lambda path: (path / "b").write_bytes(b"x"))
    assert read_all(cache, Builder()) == CONTENTS
    paths = {path.name.partition("-")[0]: path for path in tmp_path.iterdir()}
    for kind in ("payload", "files"):
        [copied] = [p for p in tmp_path.iterdir() if p.name.startswith(kind) and p != paths[kind]]
        paths[kind].rename(tmp_path / "swap")
        copied.rename(paths[kind])
        (tmp_path / "swap").rename(copied)
    build = Builder()
    assert read_all(Cache(tmp_path), build) == CONTENTS
    assert build.calls == 2
    assert (directory / CHECKSUMS_FILE).exists()


def test_folder_that_is_a_link_is_replaced(tmp_path):
    for name in ("foreign", "cache"):
        (tmp_path / name).mkdir()
    cache = Cache(tmp_path / "cache")
    assert read_all(cache, Builder()) == CONTENTS
    for path in list((tmp_path / "cache").iterdir()):
        if path.is_dir():
            path.rename(tmp_path / path.name)
            path.symlink_to(tmp_path / "foreign")
    (tmp_path / "foreign" / ".0.1-2-00000003.part").touch()
    with cache.parts("parts", "key").lock():
        assert read_all(cache, Builder()) == CONTENTS
    assert [path.name for path in (tmp_path / "foreign").iterdir()] == [".0.1-2-00000003.part"]


def test_file_instead_of_a_folder_is_replaced(tmp_path):
    cache = Cache(tmp_path)
    cache.parts("parts", "key").path.write_text("foreign")
    build = Builder()
    expected = [b"content"] * 2
    assert [cache.parts("parts", "key").get_or_build("0", build) for _ in range(2)] == expected
    assert build.calls == 1


def test_failed_builds_leave_nothing(tmp_path):
    def fail(directory=None):
        if directory:
            (directory / "half").write_text("x")
        raise OSError(28, "No space left on device")

    cache = Cache(tmp_path)
    with pytest.raises(OutputError, match=r"cannot be written \(No space left on device\)"):
        cache.directory("files", "key", fail)
    with pytest.raises(OSError, match="No space"):
        cache.get_or_build("payload", "key", fail)
    assert list(tmp_path.iterdir()) == []


def run_as_user(action):
    """Run an action in a process of another user; return its exit code."""

    def run():
        os.setgroups([])
        os.setgid(12345)
        os.setuid(12345)
        action()

    process = FORK.Process(target=run)
    process.start()
    process.join()
    return process.exitcode or 0


@pytest.mark.skipif(not is_root, reason="needs root")
def test_users_share_a_directory(tmp_path):
    for path in (tmp_path, *list(tmp_path.parents)[:3]):
        path.chmod(0o755 | path.stat().st_mode)
    theirs = tmp_path / "theirs"
    ours = tmp_path / "ours"
    theirs.mkdir()
    os.chown(theirs, 12345, 12345)
    assert run_as_user(lambda: check_contents(theirs, 3)) == 0
    check_contents(theirs, 0)  # root reads what the user built, and builds
    check_contents(theirs, 3, "for both")
    assert run_as_user(lambda: check_contents(theirs, 0, "for both")) == 0
    ours.mkdir()
    check_contents(ours, 3)
    assert run_as_user(lambda: check_contents(ours, 0)) == 0

    def build_in_foreign_directory():
        with pytest.raises(OutputError, match="not a writable directory"):
            Cache(ours).get_or_build("payload", "new", lambda: b"x")
        with pytest.raises(OutputError, match=r"cannot be written \(Permission denied\)"):
            Cache(ours).parts("parts", "key").write("new", b"x")

    assert run_as_user(build_in_foreign_directory) == 0
    ours.chmod(0o711)  # can be entered, but not read

    def use_unreadable_directory():
        with (
            pytest.raises(OutputError, match=r"not a writable directory .Permission denied"),
            open_cache(ours, ours),
        ):
            pass
        with pytest.raises(OutputError, match=r"cannot be read .Permission denied"):
            list_entries(ours)

    assert run_as_user(use_unreadable_directory) == 0


def check_contents(directory, n_builds, key="key"):
    with open_cache(directory, directory) as cache:
        build = Builder()
        content = cache.get_or_build("payload", key, build)
        parts = cache.parts("parts", key).get_or_build("0", build)
        files = cache.directory("files", key, lambda path: (build(), build_files(path)))
        expected = (b"content", b"content", b"first file")
        assert (content, parts, (files / "a").read_bytes()) == expected
        assert build.calls == n_builds


def build_slowly(directory, log_file):
    def build():
        with log_file.open("a") as stream:
            stream.write("built\n")
        time.sleep(0.2)
        return b"content"

    cache = Cache(directory)
    with cache.parts("parts", "key").lock():
        assert read_all(cache, build) == CONTENTS


def test_processes_build_an_entry_once(tmp_path, caplog):
    (tmp_path / "cache").mkdir()
    processes = [
        FORK.Process(target=build_slowly, args=(tmp_path / "cache", tmp_path / "log"))
        for _ in range(4)
    ]
    for process in processes:
        process.start()
    caplog.set_level(logging.INFO)
    build_slowly(tmp_path / "cache", tmp_path / "log")
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert (tmp_path / "log").read_text() == "built\n" * 3
    assert not list((tmp_path / "cache").glob(".*"))


def test_killed_builder_is_replaced(tmp_path):
    process = FORK.Process(target=build_slowly, args=(tmp_path, tmp_path / "log"))
    process.start()
    while not (tmp_path / "log").exists():
        time.sleep(0.01)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert list(tmp_path.glob(".*.lock"))
    build = Builder()
    with Cache(tmp_path).parts("parts", "key").lock():
        assert read_all(Cache(tmp_path), build) == CONTENTS
    assert build.calls == 3
    assert not list(tmp_path.glob(".*"))


def test_file_system_without_locks(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("aragorn.storage.locks.fcntl.flock", refuse)
    assert read_all(Cache(tmp_path), Builder()) == CONTENTS

    def build_twice(directory):
        inner = Cache(tmp_path).directory("race", "key", build_files)
        assert (inner / "a").exists()
        build_files(directory)

    path = Cache(tmp_path).directory("race", "key", build_twice)
    assert (path / "a").read_bytes() == b"first file"


def read_for(seconds, directory, seed):
    """Read and build entries, of which some are deleted or damaged, for some time."""
    rng = random.Random(seed)
    end = time.monotonic() + seconds
    cache = Cache(directory)
    while time.monotonic() < end:
        key = str(rng.randrange(4))
        content = key.encode() * 50_000
        assert cache.get_or_build("payload", key, lambda content=content: content) == content
        parts = cache.parts("parts", key)
        assert parts.read("0") in (None, content)
        with parts.lock():
            parts.write("0", content)
        path = cache.directory(
            "files", key, lambda path, content=content: (path / "a").write_bytes(content)
        )
        assert (path / "a").read_bytes() == content
        if seed == 0:  # the builder
            with parts.lock():
                parts.remove()
            path = cache._locate("payload", key)
            with lock_file(path.with_name(f".{path.name}.lock")):
                (path / path.name).write_bytes(b"damaged")


@pytest.mark.parametrize("seconds", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_readers_and_a_builder(seconds, tmp_path):
    processes = [FORK.Process(target=read_for, args=(seconds, tmp_path, seed)) for seed in range(9)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 9
    assert not list(tmp_path.glob(".*"))
