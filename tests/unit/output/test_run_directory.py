from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from submission.output.run_directory import FINGERPRINT_FILE, RunDirectory

FINGERPRINT = {"input": "i", "code": "c"}
RUN_FILES = ["a-x.txt"]


def resume(output: RunDirectory, fingerprint: dict[str, str] | None = None, overwrite: bool = False) -> None:
    output.resume(fingerprint or FINGERPRINT, RUN_FILES, overwrite)


@pytest.fixture
def run_directory(tmp_path: Path) -> Iterator[RunDirectory]:
    """Write the runs x and y to a directory that has other files, and reopen it."""
    (tmp_path / ".tracker").write_text("TIRA's\n")
    (tmp_path / ".run.txt.123.part").write_text("half")
    with RunDirectory(tmp_path / "new" / "..") as output:
        resume(output)
        for name in "xy":
            output.write_run(f"a-{name}.txt", f"{name}\n", "k")
    with RunDirectory(tmp_path) as output:
        yield output


def test_overwrite_removes_old_runs_with_the_first_new_run(run_directory: RunDirectory) -> None:
    resume(run_directory, {**FINGERPRINT, "input": "other"}, overwrite=True)
    assert (run_directory.path / "a-y.txt").exists()
    run_directory.write_run("a-x.txt", "new\n", "k")
    names = sorted(path.name for path in run_directory.path.iterdir() if path.is_file())
    assert names == [".tracker", "a-x.txt", FINGERPRINT_FILE]
    assert json.loads((run_directory.path / FINGERPRINT_FILE).read_text())["inputs"]["input"] == "other"
