"""Where temporary work goes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from submission.errors import OutputError
from submission.output.run_directory import RunDirectory
from submission.storage.cache_directory import MARKER_FILE, CacheDirectory


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a place for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nonexistent"])


def test_a_temporary_directory_is_removed(tmp_path: Path) -> None:
    with CacheDirectory(None, tmp_path) as work:
        place = work.directory
        assert place.is_dir()
    assert not place.exists()
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("nowhere")
def test_the_last_resort_serves_us_and_libraries_and_is_cleared(tmp_path: Path) -> None:
    with CacheDirectory(None, tmp_path) as work:
        assert work.directory.parent == tmp_path
        assert tempfile.gettempdir() == str(work.directory)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("nowhere")
def test_a_given_directory_serves_libraries_too(tmp_path: Path) -> None:
    with CacheDirectory(tmp_path / "work", tmp_path):
        assert tempfile.gettempdir() == str(tmp_path / "work")


@pytest.mark.usefixtures("nowhere")
def test_no_place_at_all(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no writable temporary directory"), CacheDirectory(None, tmp_path / "missing"):
        pass


def test_what_a_killed_process_left_in_an_output_is_removed(tmp_path: Path) -> None:
    for name in (".aragorn-work-x1", ".aragorn-work-theirs"):
        (tmp_path / name / "deep").mkdir(parents=True)
    (tmp_path / ".aragorn-work-x1" / MARKER_FILE).touch()
    with RunDirectory(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == [".aragorn-work-theirs"]
