"""Tests of temporary and persistent cache directories, and of locks."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("error", "message"), [(None, "in use by another process; wait"), (OSError(37, "No locks available"), "cannot be locked")]
)
def test_unavailable_locks_raise(error: OSError | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with lock_directory(tmp_path):
        if error:
            monkeypatch.setattr("submission.storage.locks.fcntl.flock", Mock(side_effect=error))
        with pytest.raises(OutputError, match=message), lock_directory(tmp_path):
            pass


def test_errors_of_a_locked_block_and_missing_directories_are_raised(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), lock_directory(tmp_path):
        raise BlockingIOError  # like the error of an unavailable lock
    with pytest.raises(OutputError, match="not a writable directory"), lock_directory(tmp_path / "nowhere"):
        pass
