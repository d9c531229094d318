"""Tests of the `rank` command and run.sh: contents of the runs, defaults, and whole executions of the sample and of args.me."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from submission.__main__ import main
from submission.systems.catalogue import SYSTEMS
from tests.conftest import ROOT, SAMPLE, read_files

MakeInput = Callable[..., Path]


def run_sh(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run run.sh in the directory `cwd`, without the environment variables of TIRA and Python."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("TIRA", "inputDataset", "outputDir", "PYTHON"))
    }
    command = [str(ROOT / "run.sh"), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def rank(checkpoints: Path, tmp_path: Path) -> Callable[..., int]:
    """Return a function that runs the `rank` command with a tiny KNRM as primary system and returns the exit code."""
    paths = ["-o", str(tmp_path / "out"), "--checkpoints", str(checkpoints), "--device", "cpu"]
    return lambda directory, *flags: main(["rank", "-i", str(directory), *paths, *flags])


def test_runs_have_the_requested_depth_tag_and_order(rank: Callable[..., int], make_input: MakeInput, tmp_path: Path) -> None:
    assert rank(make_input(), "--team", "me", "--depth", "2", "--system", "bm25", "--system", "knrm") == 0
    out = read_files(tmp_path / "out")
    assert set(out) == {"me-bm25.txt", "me-knrm.txt", "run.txt", "fingerprint.json"}
    assert out["run.txt"] == out["me-bm25.txt"]  # run.txt is the run of the first --system
    for system in ("bm25", "knrm"):
        lines = [line.split(" ") for line in out[f"me-{system}.txt"].decode().splitlines()]
        assert [(line[0], line[1], line[3], line[5]) for line in lines] == [
            ("1", "Q0", "1", f"me-{system}"), ("1", "Q0", "2", f"me-{system}"), ("2", "Q0", "1", f"me-{system}"),
        ]  # fmt: skip


@pytest.mark.slow
def test_run_sh_works_from_any_directory(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("raise SystemExit('imported a file from the working directory')")
    flags = [flag for name in ("knrm", "bm25", "snrm") for flag in ("--system", name)]
    first = run_sh(*flags, cwd=tmp_path)
    assert (first.returncode, first.stdout) == (0, ""), first.stderr
    assert "up to date, skipped" in run_sh(*flags, cwd=tmp_path).stderr
    assert (tmp_path / "runs" / "run.txt").read_bytes() == (tmp_path / "runs" / "aragorn-knrm.txt").read_bytes()
    assert run_sh("rank", "--help", cwd=tmp_path).stdout.startswith("usage: run.sh rank ")
    assert "invalid choice: 'ranks'" in run_sh("ranks", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    "command",
    ["./link", "PATH=.:$PATH link", "sh link", "sh -- -dash", "CDPATH=.. sh here/link", "'a b/link'", "sh $ROOT/run.sh"],
)
def test_run_sh_resolves_links(command: str, tmp_path: Path) -> None:
    links = {"run": ROOT / "run.sh", "link": "run", "-dash": "link", "here": ".", "a b/link": "../link"}
    for name, target in links.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(target)
    environment = {**os.environ, "ROOT": str(ROOT), "PYTHONIOENCODING": "ascii"}
    process = subprocess.run(
        ["sh", "-c", f"{command} --help"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert process.stdout.startswith("usage: run.sh rank "), process.stderr


@pytest.mark.slow
def test_all_shipped_systems_rank_the_sample(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "input", ignore=shutil.ignore_patterns("debate[op]*.json"))  # a third of the arguments
    topics = tmp_path / "input" / "topics.xml"
    first_two = "<topic>".join(topics.read_text().split("<topic>")[:3]).rstrip()
    topics.write_text(f"{first_two}\n</topics>\n")
    process, runs = run_sh("-i", tmp_path / "input", cwd=tmp_path), tmp_path / "runs"
    assert process.returncode == 0, process.stderr
    assert set(read_files(runs)) == {"run.txt", "fingerprint.json", *(f"aragorn-{name}.txt" for name in SYSTEMS)}
    assert (runs / "run.txt").read_bytes() == (runs / "aragorn-fusion.txt").read_bytes()
    assert {line.split()[0] for line in (runs / "run.txt").read_text().splitlines()} == {"1", "2"}
