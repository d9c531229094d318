"""Tests of `fit` in two torchrun processes that are killed and resumed."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import KNRM_RECIPE, ROOT, read_files
from tests.endtoend.conftest import Command
from training.__main__ import main

SETTINGS = "dropout = 0.0\n[training]\nmax_steps = 20\nmicro_batch_size = 8"  # validates every fifth step
RECIPE = KNRM_RECIPE.replace("[training]", SETTINGS)


@pytest.fixture
def fit(work_dir: Path, tmp_path: Path) -> Command:
    """Return a function that copies the working directory, and returns the command that trains there for 20 steps."""

    def arguments(directory: str) -> list[str]:
        (tmp_path / "knrm.toml").write_text(RECIPE)
        shutil.copytree(work_dir, tmp_path / directory, dirs_exist_ok=True)
        return ["fit", str(tmp_path / "knrm.toml"), "--work-dir", str(tmp_path / directory), "--device", "cpu"]

    return arguments


def start_torchrun(arguments: list[str], folder: Path) -> subprocess.Popen[str]:
    """Start two training processes with torchrun."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "training", *arguments],
        env=environment, cwd=folder, text=True, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait_for_success(process: subprocess.Popen[str]) -> str:
    """Wait for a process to succeed and return its standard error."""
    stderr = process.communicate()[1]
    assert process.returncode == 0, stderr
    return stderr


def read_log(directory: Path) -> list[dict[str, float]]:
    """Read the rows of the training log in a working directory; return no rows if there is no log yet."""
    logs = list(directory.glob("fit/*/log.jsonl"))
    return [json.loads(line) for line in logs[0].read_text().splitlines()] if logs else []


@pytest.mark.slow
def test_two_killed_processes_resume_and_equal_one_process(fit: Command, tmp_path: Path) -> None:
    stderr = wait_for_success(start_torchrun(fit("whole"), tmp_path))
    assert main(fit("one")) == 0
    single, pair = read_log(tmp_path / "one"), read_log(tmp_path / "whole")
    assert [row["step"] for row in pair] == [row["step"] for row in single] == [5, 10, 15, 20]
    assert [row["loss"] for row in pair] == pytest.approx([row["loss"] for row in single], abs=1e-5)
    assert max(row["loss"] for row in pair) - min(row["loss"] for row in pair) > 0.02
    provenance = json.loads((tmp_path / "whole" / "checkpoints" / "knrm" / "provenance.json").read_text())
    assert provenance["machine"].endswith(" cpu × 2")
    assert stderr.count("Epoch 0.") == len([row for row in single if row["epoch"] < 1])  # only rank 0 logs

    arguments = fit("killed")
    process, deadline = start_torchrun(arguments, tmp_path), time.monotonic() + 120
    while len(read_log(tmp_path / "killed")) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    for child in [*psutil.Process(process.pid).children(recursive=True), process]:  # each process has its own session
        child.kill()
    process.communicate()
    assert 2 <= len(read_log(tmp_path / "killed")) < 4
    assert "Resuming at step" in wait_for_success(start_torchrun(arguments, tmp_path))
    assert read_files(tmp_path / "killed" / "checkpoints") == read_files(tmp_path / "whole" / "checkpoints")
    assert read_log(tmp_path / "killed") == pair
