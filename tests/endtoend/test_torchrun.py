"""Tests of `fit` in two torchrun processes that are killed and resumed, and of `fit --all`."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from submission.errors import SystemsFailedError
from submission.systems.catalogue import RERANKERS
from tests.conftest import KNRM_RECIPE, ROOT, read_files
from tests.endtoend.conftest import Command, Log
from training.__main__ import main
from training.cli import fit_all
from training.tasks import load_recipe

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


# Replacement for Python that logs the start (with recipe, GPU and flags) and the end of a job, and fails for drmm.
JOB = """#!/bin/bash
echo "begin $4 $CUDA_VISIBLE_DEVICES ${@:5}" >> "$LOG"; sleep 0.2; echo "end $4" >> "$LOG"
[ "$4" != drmm ] || { echo "error: dead" >&2; exit 7; }
"""


@pytest.fixture
def job_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[list[str]]]:
    """Replace Python by `JOB`, and return a function that reads the lines that the jobs logged, split into words."""
    (tmp_path / "python").write_text(JOB)
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5,6")
    return lambda: [line.split() for line in (tmp_path / "log").read_text().splitlines()]


def test_fit_all_runs_one_recipe_per_gpu(work_dir: Path, job_log: Callable[[], list[list[str]]]) -> None:
    names = ["gru", "knrm", "vanilla_bert", "cedr_knrm"]
    fit_all.fit_all({name: load_recipe(name) for name in names}, ["--restart"], work_dir, None, 2)
    jobs = job_log()
    events = [(event, name) for event, name, *_ in jobs]
    assert {*events[:2]} == {("begin", "gru"), ("begin", "knrm")}  # two jobs at a time
    assert events.index(("end", "vanilla_bert")) < events.index(("begin", "cedr_knrm"))
    assert {job[2] for job in jobs if job[0] == "begin"} == {"3", "5"}
    assert jobs[0][3:] == ["--work-dir", str(work_dir), "--restart"]


def test_fit_all_skips_only_dependents_of_a_failed_recipe(
    work_dir: Path, job_log: Callable[[], list[list[str]]], caplog: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipes = {name: load_recipe(name) for name in ("drmm", "cedr_drmm", "knrm")}
    encoder = replace(recipes["cedr_drmm"].encoder, init_from="drmm")
    recipes["cedr_drmm"] = replace(recipes["cedr_drmm"], encoder=encoder)
    with pytest.raises(SystemsFailedError, match="failed or skipped: drmm, cedr_drmm; all others finished"):
        fit_all.fit_all(recipes, [], work_dir, None, 0)
    assert [job[:2] for job in job_log()] == [["begin", "drmm"], ["end", "drmm"], ["begin", "knrm"], ["end", "knrm"]]
    assert f"drmm: failed with exit code 7, log: {work_dir / 'fit' / 'drmm.log'}" in caplog.text
    assert (work_dir / "fit" / "drmm.log").read_text() == "error: dead\n"
    monkeypatch.setattr(sys, "executable", str(work_dir))
    with pytest.raises(SystemsFailedError, match="failed or skipped: drmm, cedr_drmm, knrm; all others finished"):
        fit_all.fit_all(recipes, [], work_dir, None, 0)
    assert "knrm: cannot be started ([Errno 13] Permission denied" in caplog.text


def test_fit_all_covers_all_systems_in_order() -> None:
    recipes = [*fit_all.load_recipes_in_order()]
    assert {*RERANKERS, "snrm", "sbert"} <= set(recipes)
    assert not {"sample", "knrm_thesis", "ensemble", "bm25_arguments"} & set(recipes)
    assert recipes.index("vanilla_bert") < min(recipes.index("cedr_knrm"), recipes.index("cedr_drmm"))
    assert recipes.index("targer_language") < recipes.index("targer_essays")  # initialises the tagger


def test_fit_all_names_missing_data(tmp_path: Path, caplog: Log) -> None:
    kinds = {
        "knrm": "pairs", "vanilla_bert_dirichlet": "pairs", "tfr_bert": "quality", "deepct": "passages",
        "targer_language": "pairs", "targer_essays": "tags", "vanilla_bert_distilled": "distillation",
    }  # fmt: skip
    with pytest.raises(SystemsFailedError, match=f"failed or skipped: {', '.join(kinds)}; all others finished"):
        fit_all.fit_all({name: load_recipe(name) for name in kinds}, [], tmp_path, None, 0)
    messages = {record.args[0]: record.getMessage() for record in caplog.records if record.args}
    assert all(f"`python -m training prepare {kind} " in messages[name] for name, kind in kinds.items())
