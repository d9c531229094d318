"""Tests of `fit` in two processes, started by torchrun or like it, that are killed and resumed."""

import json
import os
import shutil
import socket
import sys
import time
from contextlib import contextmanager

import pytest

from aragorn_training.__main__ import main
from tests.conftest import KNRM_RECIPE, argv, read_files, run_process
from tests.endtoend.conftest import ForkedProcess

# validates every fifth step
SETTINGS = "dropout = 0.0\n[training]\nmax_steps = 20\nmicro_batch_size = 8"
RECIPE = KNRM_RECIPE.replace("[training]", SETTINGS)


@pytest.fixture
def fit(work_dir, tmp_path):
    """Return a function that copies the working directory."""

    def arguments(directory):
        (tmp_path / "knrm.toml").write_text(RECIPE)
        shutil.copytree(work_dir, tmp_path / directory, dirs_exist_ok=True)
        return argv(
            "fit", tmp_path / "knrm.toml", "--work-dir", tmp_path / directory, "--device cpu"
        )

    return arguments


@contextmanager
def run_pair(arguments, log):
    """Fork two processes like torchrun; kill them at the end of the block."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    processes = []
    with pytest.MonkeyPatch.context() as patch, log.open("wb") as stream:
        for rank in "01":
            for name, value in {**variables, "RANK": rank, "LOCAL_RANK": rank}.items():
                patch.setenv(name, value)
            processes.append(
                ForkedProcess([sys.executable, "-m", "aragorn_training", *arguments], stream)
            )
    try:
        yield processes
    finally:
        for item in processes:
            item.process.kill()
            item.process.join()


def read_log(directory):
    """Read the rows of the training log in a working directory."""
    logs = list(directory.glob("fit/*/log.jsonl"))
    return [json.loads(line) for line in logs[0].read_text().splitlines()] if logs else []


@pytest.mark.slow
def test_two_killed_processes_resume_and_equal_one_process(fit, tmp_path):
    torchrun = argv(sys.executable, "-m torch.distributed.run --standalone --nproc-per-node 2")
    torchrun += argv("-m aragorn_training")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [*torchrun, *fit("whole")]
    done = run_process(command, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert main(fit("one")) == 0
    single = read_log(tmp_path / "one")
    pair = read_log(tmp_path / "whole")
    assert [row["step"] for row in pair] == [row["step"] for row in single] == [5, 10, 15, 20]
    assert [row["loss"] for row in pair] == pytest.approx([row["loss"] for row in single], abs=1e-5)
    assert max(row["loss"] for row in pair) - min(row["loss"] for row in pair) > 0.02
    provenance = json.loads(
        (tmp_path / "whole" / "checkpoints" / "knrm" / "provenance.json").read_text()
    )
    assert provenance["machine"].endswith(" cpu × 2")
    # only rank 0 logs
    assert done.stderr.count("Epoch 0.") == len([row for row in single if row["epoch"] < 1])

    arguments = fit("killed")
    with run_pair(arguments, tmp_path / "killed.log"):
        deadline = time.monotonic() + 120
        while len(read_log(tmp_path / "killed")) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert 2 <= len(read_log(tmp_path / "killed")) < 4
    with run_pair(arguments, tmp_path / "resumed.log") as processes:
        for item in processes:
            item.process.join(120)
    assert [item.returncode for item in processes] == [0, 0]
    assert "Resuming at step" in (tmp_path / "resumed.log").read_text()
    expected = read_files(tmp_path / "whole" / "checkpoints")
    assert read_files(tmp_path / "killed" / "checkpoints") == expected
    assert read_log(tmp_path / "killed") == pair
