"""Tests of temporary and persistent cache directories, and of locks."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from submission.errors import OutputError
from submission.output.run_directory import RunDirectory
from submission.storage.cache_directory import MARKER_FILE, CacheDirectory
from submission.storage.locks import lock_directory


@pytest.fixture
def no_tempdir(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a system without a temporary directory."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nonexistent"])


def test_temporary_directory_is_removed(tmp_path: Path) -> None:
    with CacheDirectory(None, tmp_path) as cache:
        directory = cache.directory
        assert directory.is_dir()
    assert not directory.exists()
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_tempdir")
def test_fallback_directory_is_tempdir_and_is_removed(tmp_path: Path) -> None:
    with CacheDirectory(None, tmp_path) as cache:
        assert cache.directory.parent == tmp_path
        assert tempfile.gettempdir() == str(cache.directory)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_tempdir")
def test_no_temporary_directory_raises(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no writable temporary directory"), CacheDirectory(None, tmp_path / "missing"):
        pass


def test_stale_directory_in_output_is_removed(tmp_path: Path) -> None:
    for name in (".aragorn-work-x1", ".aragorn-work-theirs"):
        (tmp_path / name / "deep").mkdir(parents=True)
    (tmp_path / ".aragorn-work-x1" / MARKER_FILE).touch()
    with RunDirectory(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == [".aragorn-work-theirs"]


def fail_to_lock(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("submission.storage.locks.fcntl.flock", Mock(side_effect=OSError(code, os.strerror(code))))


@pytest.mark.parametrize("code", [None, errno.EAGAIN, errno.EACCES])
def test_locks_of_other_processes_raise(code: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lock_directory(tmp_path):
        if code:
            fail_to_lock(code, monkeypatch)
        with pytest.raises(OutputError, match="in use by another process; wait"), lock_directory(tmp_path):
            pass


# Lustre; NFS without its lock service; NFS, which locks only files that are open for writing; FUSE and others
@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EBADF, errno.EOPNOTSUPP, errno.EINVAL, errno.EIO])
def test_file_systems_without_locks_are_used_with_a_warning(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fail_to_lock(code, monkeypatch)
    with RunDirectory(tmp_path / "runs"), CacheDirectory(tmp_path / "cache", tmp_path), lock_directory(tmp_path, shared=True):
        pass
    message = f"cannot be locked ({os.strerror(code)}); use it in only one process at a time"
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [message] * 3


def test_errors_of_a_locked_block_and_missing_directories_are_raised(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), lock_directory(tmp_path):
        raise BlockingIOError  # like the error of an unavailable lock
    with pytest.raises(OutputError, match="not a writable directory"), lock_directory(tmp_path / "nowhere"):
        pass
