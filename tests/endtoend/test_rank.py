"""Tests of the `rank` command and run.sh: valid runs, unusual topics, damaged checkpoints, and output directories in use."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tira.check_format import check_format

from submission.__main__ import main
from submission.output.run_directory import RunDirectory
from submission.systems.catalogue import SYSTEMS
from tests.conftest import REAL_DATA, ROOT, SAMPLE, load_documents, make_argument, read_files
from tests.endtoend.conftest import Capture, Log

MakeInput = Callable[..., Path]
Rank = Callable[..., tuple[int, str]]


def run_sh(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run run.sh without the caller's environment variables for TIRA and Python."""
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith(("TIRA", "inputDataset", "outputDir", "PYTHON"))
    }
    command = [str(ROOT / "run.sh"), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=inherited | environment, capture_output=True, text=True, check=False)


@pytest.fixture
def rank(checkpoints: Path, tmp_path: Path, capsys: Capture) -> Rank:
    """Return a function that runs the `rank` command in this process with `checkpoints` and returns exit code and stderr."""

    def run(directory: Path, *flags: str, output: str = "out") -> tuple[int, str]:
        command = ["rank", "-i", str(directory), "-o", str(tmp_path / output), "--checkpoints", str(checkpoints), *flags]
        return main([*command, "--device", "cpu"]), capsys.readouterr().err

    return run


@pytest.mark.slow
def test_rank_works_from_any_working_directory(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("raise SystemExit('imported a file from the working directory')")
    flags = [flag for name in ("knrm", "bm25", "snrm") for flag in ("--system", name)]
    first = run_sh(*flags, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert first.stdout == ""
    runs = tmp_path / "runs"
    [message] = [message for message in check_format(runs, "run.txt") if isinstance(message, str)]
    assert "correct format" in message
    again = run_sh(*flags, cwd=tmp_path)
    assert again.returncode == 0
    assert "up to date, skipped" in again.stderr
    elsewhere = run_sh("-o", "other", *flags, cwd=tmp_path)
    assert elsewhere.returncode == 0
    assert read_files(tmp_path / "other") == read_files(runs)
    assert (runs / "run.txt").read_bytes() == (runs / "aragorn-knrm.txt").read_bytes()  # run of the first --system


def test_run_sh_runs_every_subcommand(tmp_path: Path) -> None:
    for subcommand in ("rank", "check", "explain", "search", "systems"):
        result = run_sh(subcommand, "--help", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert result.stdout.startswith(f"usage: run.sh {subcommand} ")
    assert run_sh("--help", cwd=tmp_path).stdout == run_sh("rank", "--help", cwd=tmp_path).stdout
    assert "invalid choice: 'ranks'" in run_sh("ranks", cwd=tmp_path).stderr


@pytest.mark.slow
def test_rank_runs_all_shipped_systems(tmp_path: Path) -> None:
    shutil.copytree(
        SAMPLE, tmp_path / "input", ignore=shutil.ignore_patterns("debate[op]*.json")
    )  # leaves a third of the arguments
    topics = tmp_path / "input" / "topics.xml"
    topics.write_text(
        "<topic>".join(topics.read_text().split("<topic>")[:3]).rstrip() + "\n</topics>\n"
    )  # the first two topics
    process = run_sh("-i", tmp_path / "input", cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    runs = tmp_path / "runs"
    assert set(read_files(runs)) == {"run.txt", "fingerprint.json", *(f"aragorn-{name}.txt" for name in SYSTEMS)}
    assert (runs / "run.txt").read_bytes() == (runs / "aragorn-fusion.txt").read_bytes()
    assert {line.split()[0] for line in (runs / "run.txt").read_text().splitlines()} == {"1", "2"}


@pytest.mark.parametrize("names", [("inputDataset", "outputDir"), ("TIRA_INPUT_DATASET", "TIRA_OUTPUT_DIR")])
def test_rank_reads_environment_variables_of_tira(tmp_path: Path, make_input: MakeInput, names: tuple[str, str]) -> None:
    directory = make_input()
    process = run_sh("--system", "bm25", cwd=tmp_path, **{names[0]: str(directory), names[1]: str(tmp_path / "output")})
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "output" / "run.txt").read_text().startswith("1 Q0 a1 1 ")


def test_rank_writes_valid_runs(rank: Rank, make_input: MakeInput, tmp_path: Path) -> None:
    code, _ = rank(make_input(), "--team", "me", "--depth", "2", "--system", "bm25", "--system", "knrm")
    assert code == 0
    out = read_files(tmp_path / "out")
    assert set(out) == {"me-bm25.txt", "me-knrm.txt", "run.txt", "fingerprint.json"}
    assert out["run.txt"] == out["me-bm25.txt"]  # run.txt is the run of the first --system
    for system in ("bm25", "knrm"):
        lines = [line.split(" ") for line in out[f"me-{system}.txt"].decode().splitlines()]
        assert [(line[0], line[1], line[3], line[5]) for line in lines] == [
            ("1", "Q0", "1", f"me-{system}"),
            ("1", "Q0", "2", f"me-{system}"),
            ("2", "Q0", "1", f"me-{system}"),
        ]


def test_rank_skips_short_premises_and_topics_without_known_words(
    rank: Rank, make_input: MakeInput, tmp_path: Path, caplog: Log
) -> None:
    assert rank(make_input([("1", "Quux?"), ("2", "pets dogs cats")]))[0] == 0
    assert "topic 1 (Quux?)" in caplog.text
    for name in ("bm25", "knrm"):
        lines = [line.split() for line in (tmp_path / "out" / f"aragorn-{name}.txt").read_text().splitlines()]
        assert {line[0] for line in lines} == {"2"}
        assert "a6" not in {line[2] for line in lines}
        assert "a5" in {line[2] for line in lines}


def test_rank_rejects_cuda_without_a_gpu(rank: Rank, make_input: MakeInput, checkpoints: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    assert main(["rank", "-i", str(make_input()), "--checkpoints", str(checkpoints), "--device", "cuda"]) == 2


def test_rank_skips_damaged_checkpoints(rank: Rank, make_input: MakeInput, checkpoints: Path, tmp_path: Path) -> None:
    directory = make_input()
    (checkpoints / "knrm" / "model.safetensors").write_bytes(b"damaged")
    assert rank(directory, "--system", "knrm")[0] == 4
    for output in ("damaged", "missing"):
        code, stderr = rank(directory, output=output)
        assert (code, "systems failed: knrm; the other runs are in" in stderr) == (6, True)
        assert set(read_files(tmp_path / output)) == {"aragorn-bm25.txt", "fingerprint.json"}
        shutil.rmtree(checkpoints / "knrm", ignore_errors=True)


def test_rank_rejects_an_output_directory_of_another_input(rank: Rank, make_input: MakeInput, tmp_path: Path) -> None:
    first, second = make_input(), make_input([("7", "Is golf cruel?")], name="second")
    with RunDirectory(tmp_path / "out"):
        code, stderr = rank(first)
    assert (code, "another process" in stderr) == (5, True)
    assert rank(first)[0] == 0
    before = read_files(tmp_path / "out")
    code, stderr = rank(second)
    assert (code, "contains files made from another input" in stderr) == (5, True)
    assert read_files(tmp_path / "out") == before
    assert rank(second, "--overwrite", "--system", "bm25")[0] == 0
    assert set(read_files(tmp_path / "out")) == {"aragorn-bm25.txt", "fingerprint.json", "run.txt"}


def test_rank_leaves_no_partial_file_on_a_full_disk(
    rank: Rank, make_input: MakeInput, small_disk: Callable[[int], Path]
) -> None:
    disk = small_disk(8)
    golf = [make_argument(f"b{index}", f"Golf is sport {index}") for index in range(9)]
    arguments = [*(make_argument(f"a{index}") for index in range(400)), *golf]
    code, stderr = rank(make_input(arguments=arguments), "--depth", "1000", output=disk.name)
    assert (code, "No space left" in stderr) == (5, True)
    assert set(read_files(disk)) <= {"fingerprint.json"}


@pytest.mark.slow
@pytest.mark.skipif(not REAL_DATA.exists(), reason="needs the args.me data")
def test_runs_on_args_me_are_valid_and_deterministic(tmp_path: Path) -> None:
    for output in ("first", "second"):
        process = run_sh(
            "-i", REAL_DATA / "touche-2020/input", "-o", output, "--system", "knrm", "--system", "bm25", cwd=tmp_path
        )
        assert process.returncode == 0, process.stderr
    assert read_files(tmp_path / "first") == read_files(tmp_path / "second")
    [message] = [message for message in check_format(tmp_path / "first", "run.txt") if isinstance(message, str)]
    assert "correct format" in message
    topics = {line.split()[0] for line in (tmp_path / "first" / "run.txt").read_text().splitlines()}
    assert len(topics) == 49


def test_rank_defaults_to_the_sample(monkeypatch: pytest.MonkeyPatch, caplog: Log, tmp_path: Path) -> None:
    for name in ("inputDataset", "TIRA_INPUT_DATASET"):
        monkeypatch.delenv(name, raising=False)
    caplog.set_level("INFO")
    assert main(["rank", "-o", str(tmp_path / "o"), "--system", "bm25"]) == 0
    assert f"collection: 461 of {len(load_documents(SAMPLE))} arguments" in caplog.text
