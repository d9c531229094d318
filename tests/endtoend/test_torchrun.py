"""Tests of `fit` in two torchrun processes that are killed and resumed, and of `fit --all`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from submission.errors import SystemsFailedError
from submission.inference import pretrained
from submission.storage.locks import lock_directory
from submission.systems.catalogue import RERANKERS
from tests.conftest import ROOT, read_files
from tests.endtoend.conftest import AssertFails, Command, Log, write_encoder
from training.__main__ import main
from training.cli import fit_all
from training.fitting import training_loop
from training.fitting.recipe import Recipe
from training.tasks import load_recipe

STEPS = 20
RECIPES = {
    "knrm": """ranker = "knrm"
[network]
dimensions = 20
dropout = 0.0
[training]
epochs = 4
learning_rate = 0.01
micro_batch_size = 8
""",
    "vanilla_bert": """ranker = "vanilla_bert"
[network]
dropout = 0.0
[lengths]
query = 20
premise = 30
[encoder]
name = "tiny"
learning_rate = 0.001
[training]
epochs = 2
batch_size = 16
micro_batch_size = 8
validation_queries = 3
""",
}
# Makes the tiny encoder known to torchrun's processes and skips plotting, which would take most of the time.
SCRIPT = """import sys
from pathlib import Path
from submission.inference import pretrained
from training.__main__ import main
from training.fitting import training_loop
pretrained.ENCODER_DIR, training_loop.plot = Path(sys.argv[1]), lambda *_: b""
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture
def encoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a tiny BERT without dropout."""
    monkeypatch.setattr(pretrained, "ENCODER_DIR", tmp_path / "encoders")
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return write_encoder(tmp_path / "encoders" / "tiny", **no_dropout, initializer_range=0.2).parent


@pytest.fixture
def fit(work_dir: Path, encoders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return a command that trains for 20 steps, each with validation, in a copy of the working directory."""

    def arguments(ranker: str, directory: str, dropout: float = 0.0) -> list[str]:
        text = RECIPES[ranker].replace("dropout = 0.0", f"dropout = {dropout}")
        (tmp_path / f"{ranker}.toml").write_text(f"{text}max_steps = {STEPS}\nvalidations_per_epoch = 100\n")
        shutil.copytree(work_dir, tmp_path / directory, dirs_exist_ok=True)
        return ["fit", str(tmp_path / f"{ranker}.toml"), "--work-dir", str(tmp_path / directory), "--device", "cpu"]

    monkeypatch.setattr(training_loop, "plot", lambda *_: b"")
    (tmp_path / "script.py").write_text(SCRIPT)
    return arguments


def start_torchrun(arguments: list[str], folder: Path) -> subprocess.Popen[str]:
    """Start two training processes with torchrun."""
    script = [str(folder / "script.py"), str(folder / "encoders")]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *script, *arguments],
        env=environment, cwd=folder, text=True, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait_for_success(process: subprocess.Popen[str]) -> str:
    """Wait for a process to succeed and return its standard error."""
    stderr = process.communicate()[1]
    assert process.returncode == 0, stderr
    return stderr


def read_log(directory: Path) -> list[dict[str, float]]:
    """Read the rows of the training log, if it exists."""
    logs = list(directory.glob("fit/*/log.jsonl"))
    return [json.loads(line) for line in logs[0].read_text().splitlines()] if logs else []


@pytest.mark.slow
@pytest.mark.parametrize("ranker", RECIPES)
def test_two_processes_equal_one_process(ranker: str, fit: Command, tmp_path: Path) -> None:
    process = start_torchrun(fit(ranker, "two"), tmp_path)
    assert main(fit(ranker, "one")) == 0
    stderr, single, pair = wait_for_success(process), read_log(tmp_path / "one"), read_log(tmp_path / "two")
    assert [row["step"] for row in pair] == [row["step"] for row in single] == list(range(1, STEPS + 1))
    assert max(abs(a["loss"] - b["loss"]) for a, b in zip(single, pair, strict=True)) <= 1e-5
    assert len({row["loss"] for row in single}) > STEPS / 2
    assert max(row["loss"] for row in single) - min(row["loss"] for row in single) > 0.02
    provenance = json.loads((tmp_path / "two" / "checkpoints" / ranker / "provenance.json").read_text())
    assert provenance["machine"].endswith(" cpu × 2")
    assert len([line for line in stderr.splitlines() if "Epoch 0." in line]) == len([row for row in single if row["epoch"] < 1])


@pytest.mark.slow
def test_two_killed_processes_resume_with_the_same_bytes(fit: Command, tmp_path: Path) -> None:
    wait_for_success(start_torchrun(fit("knrm", "whole", dropout=0.2), tmp_path))
    arguments = fit("knrm", "killed", dropout=0.2)
    process, deadline = start_torchrun(arguments, tmp_path), time.monotonic() + 120
    while len(read_log(tmp_path / "killed")) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    for child in [*psutil.Process(process.pid).children(recursive=True), process]:  # each process has its own session
        child.kill()
    process.communicate()
    assert 5 <= len(read_log(tmp_path / "killed")) < STEPS
    assert "Resuming at step" in wait_for_success(start_torchrun(arguments, tmp_path))
    assert read_files(tmp_path / "killed" / "checkpoints") == read_files(tmp_path / "whole" / "checkpoints")
    assert read_log(tmp_path / "killed") == read_log(tmp_path / "whole")


def test_parallel_fits_lock_each_network(fit: Command, tmp_path: Path, assert_fails: AssertFails) -> None:
    arguments, work = fit("knrm", "mine"), tmp_path / "mine"
    for name in ("knrm", "other"):
        (work / "fit" / name).mkdir(parents=True)
    with lock_directory(work, shared=True), lock_directory(work / "fit" / "knrm"):
        assert_fails(5, f"{work / 'fit' / 'knrm'}: in use by another process", *arguments)
    with lock_directory(work, shared=True), lock_directory(work / "fit" / "other"):
        assert main(["prepare", "vectors", "--work-dir", str(work)]) == 5  # other processes read the vectors
        assert main(arguments) == 0


# Replacement for Python that logs the start (with recipe, GPU and flags) and the end of a job, and fails for drmm.
JOB = """#!/bin/bash
echo "begin $4 $CUDA_VISIBLE_DEVICES ${@:5}" >> "$LOG"; sleep 0.2; echo "end $4" >> "$LOG"
[ "$4" != drmm ] || { echo "error: dead" >&2; exit 7; }
"""


@pytest.fixture
def job_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Replace Python with `JOB`, and return a function that reads the logged lines."""
    (tmp_path / "python").write_text(JOB)
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return lambda: (tmp_path / "log").read_text().splitlines()


def test_fit_all_runs_one_recipe_per_gpu(
    work_dir: Path, job_log: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5,6")
    names = ["gru", "knrm", "vanilla_bert", "cedr_knrm"]
    fit_all.fit_all({name: load_recipe(name) for name in names}, ["--restart"], work_dir, None, 2)
    lines = job_log()
    assert {line.split()[1] for line in lines if line.startswith("end")} == {*names}
    assert {line.split()[2] for line in lines if line.startswith("begin")} == {"3", "5"}
    assert lines.index("end vanilla_bert") < next(n for n, line in enumerate(lines) if line.startswith("begin cedr_knrm"))
    assert {tuple(line.split()[:2]) for line in lines[:2]} == {("begin", "gru"), ("begin", "knrm")}  # two jobs at a time
    assert lines[0].endswith(f"--work-dir {work_dir} --restart")


def _recipes_with_dependent_of_drmm() -> dict[str, Recipe]:
    recipes = {name: load_recipe(name) for name in ("drmm", "cedr_drmm", "knrm")}
    encoder = replace(recipes["cedr_drmm"].encoder, init_from="drmm")
    return recipes | {"cedr_drmm": replace(recipes["cedr_drmm"], encoder=encoder)}


def test_fit_all_skips_only_dependents_of_a_failed_recipe(
    work_dir: Path, job_log: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, caplog: Log
) -> None:
    with pytest.raises(SystemsFailedError, match="failed or skipped: drmm, cedr_drmm; all others finished"):
        fit_all.fit_all(_recipes_with_dependent_of_drmm(), [], work_dir, None, 0)
    assert [line.strip() for line in job_log()] == [
        f"begin drmm  --work-dir {work_dir}", "end drmm", f"begin knrm  --work-dir {work_dir}", "end knrm"
    ]  # fmt: skip
    assert f"drmm: failed with exit code 7, log: {work_dir / 'fit' / 'drmm.log'}" in caplog.text
    assert (work_dir / "fit" / "drmm.log").read_text() == "error: dead\n"


def test_unstartable_process_fails_only_its_recipe(
    work_dir: Path, job_log: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, caplog: Log
) -> None:
    def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        if "drmm" in command:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return popen(command, **options)

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(SystemsFailedError, match="failed or skipped: drmm, cedr_drmm; all others finished"):
        fit_all.fit_all(_recipes_with_dependent_of_drmm(), [], work_dir, None, 0)  # one process at a time
    assert [line.strip() for line in job_log()] == [f"begin knrm  --work-dir {work_dir}", "end knrm"]
    assert "drmm: cannot be started ([Errno 11] Resource temporarily unavailable)" in caplog.text
    assert "cedr_drmm: skipped: initial checkpoint drmm failed" in caplog.text


@pytest.mark.slow
def test_fit_all_jobs_are_fit_commands(work_dir: Path, monkeypatch: pytest.MonkeyPatch, assert_fails: AssertFails) -> None:
    monkeypatch.setattr(fit_all, "load_recipes_in_order", lambda: {"knrm": load_recipe("knrm")})
    assert_fails(6, "failed or skipped: knrm", "fit", "--all", "--work-dir", work_dir, "--device", "cpu")
    assert "network.dimensions is 300, but the word vectors have 20" in (work_dir / "fit" / "knrm.log").read_text()


def test_fit_all_covers_all_systems() -> None:
    recipes = [*fit_all.load_recipes_in_order()]
    assert {*RERANKERS, "snrm", "sbert"} <= set(recipes)
    assert not {"sample", "knrm_thesis", "ensemble", "bm25_arguments"} & set(recipes)
    assert recipes.index("vanilla_bert") < min(recipes.index("cedr_knrm"), recipes.index("cedr_drmm"))
    assert recipes.index("targer_language") < recipes.index("targer_essays")  # initialises the tagger


def test_fit_all_names_missing_data(tmp_path: Path, job_log: Callable[[], list[str]], caplog: Log) -> None:
    prepare_kinds = {
        "knrm": "pairs", "vanilla_bert_dirichlet": "pairs", "tfr_bert": "quality", "deepct": "passages",
        "targer_language": "pairs", "targer_essays": "tags", "vanilla_bert_distilled": "distillation",
    }  # fmt: skip
    with pytest.raises(SystemsFailedError, match=f"failed or skipped: {', '.join(prepare_kinds)}; all others finished"):
        fit_all.fit_all({name: load_recipe(name) for name in prepare_kinds}, [], tmp_path, None, 0)
    assert not (tmp_path / "log").exists()  # no job started
    messages = {record.args[0]: record.getMessage() for record in caplog.records if record.args}
    assert all(f"`python -m training prepare {kind} " in messages[name] for name, kind in prepare_kinds.items())


def test_fit_requires_one_recipe_argument(work_dir: Path, assert_fails: AssertFails) -> None:
    assert_fails(2, "expected RECIPE or --all", "fit", "--work-dir", work_dir)
    assert_fails(2, "fit --all cannot be combined with RECIPE", "fit", "knrm", "--all", "--work-dir", work_dir)
