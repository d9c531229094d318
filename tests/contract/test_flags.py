"""Flags and environment variables that are accepted, among them former names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.conftest import Call
from tests.contract.input_files import touche, write_files


@pytest.fixture(autouse=True)
def input_in_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write an input and make its parent the working directory."""
    write_files(tmp_path / "input", touche())
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("is_empty", [False, True])
def test_tira_variables_set_directories(is_empty: bool, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {"inputDataset": "input", "outputDir": "elsewhere", "inputRun": "", "TIRA_INPUT_DATASET": "", "TIRA_OUTPUT_DIR": ""}
    for name, path in paths.items():
        monkeypatch.setenv(name, "" if is_empty else path)
    assert call("rank", "--system=bm25", "--device=cpu", *(["-i", "input"] if is_empty else []))[0] == 0
    assert Path("runs" if is_empty else "elsewhere", "run.txt").exists()


def test_former_flags_are_accepted(trained: Path, call: Call) -> None:
    flags = ["-i", "input", "--checkpoints", trained]
    assert call("rank", *flags, "-o", "out", "--work", "cache", "--system=bm25")[0] == 0
    assert any(Path("cache").iterdir())
    assert call("explain", *flags, "--system=knrm", "--topic=1", "--document=a1")[0] == 0
    assert call("check", *flags, "--differing", "ids")[0] == 0
    assert Path("ids").exists()
