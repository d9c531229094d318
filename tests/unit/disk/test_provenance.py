from __future__ import annotations

from pathlib import Path

import pytest

from submission.disk.provenance import PROVENANCE, verified_hashes, write_with_provenance
from submission.errors import CheckpointError


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_with_provenance(tmp_path / "mine", {"a": b"1", "b": b"2", "c": b"3"}, {"made": "here"})
    return tmp_path / "mine"


def test_all_that_is_missing_is_named_at_once(directory: Path) -> None:
    assert set(verified_hashes(directory, ("a", "b"))) == {"a", "b", "c"}
    (directory / "c").unlink()
    (directory / "a").unlink()
    with pytest.raises(CheckpointError, match=r"mine: missing a, c; restore"):
        verified_hashes(directory, ("a", "b"))
    (directory / PROVENANCE).unlink()
    with pytest.raises(CheckpointError, match=r"mine: missing a, provenance\.json; restore"):
        verified_hashes(directory, ("a", "b"))


def test_a_file_without_a_hash(directory: Path) -> None:
    with pytest.raises(CheckpointError, match=r"provenance\.json: damaged \(no hash of d\)"):
        verified_hashes(directory, ("a", "d"))


def test_a_changed_file(directory: Path) -> None:
    (directory / "b").write_text("x")
    with pytest.raises(CheckpointError, match=r"b: damaged, its SHA-256 is not d4735e3a265e…"):
        verified_hashes(directory, ("a",))


def test_no_such_directory_names_those_that_are_there(directory: Path) -> None:
    with pytest.raises(CheckpointError, match="no such checkpoint; present: mine"):
        verified_hashes(directory.parent / "other", ("a",))
