"""What the README tells TIRA's users, and what the image's files say about each other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tira.check_format import check_format

from submission import __version__
from submission.errors import InputError
from submission.paths import CHECKPOINTS
from submission.systems.catalogue import SYSTEMS, find
from submission.systems.remembered import Checkpoints
from tests.conftest import ROOT, SAMPLE, write_deepct, write_reordering, write_tiny
from training.fusing.aggregate import aggregate
from training.measuring.readme import MEASURES_SHOWN, results_table, update
from training.measuring.results import COMMON, JUDGED
from training.paths import MEASURED


def tira_commands() -> dict[str, str]:
    """The README's commands for TIRA by system."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^/aragorn/run\.sh .*$", readme, re.MULTILINE)
    return {command.rpartition(" ")[2]: command for command in commands}


def pins(file: str) -> dict[str, str]:
    """Versions by normalised names."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    found = dict(re.findall(r"^([\w.-]+)==([\w.]+)", "\n".join(lines), re.MULTILINE))
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found.items()}


def test_a_command_for_each_system_that_can_run_without_double_quotes() -> None:
    commands = tira_commands()
    assert sorted(commands) == sorted(SYSTEMS)
    for system, command in commands.items():
        assert command == f"/aragorn/run.sh -i $inputDataset -o $outputDir --system {system}"


@pytest.mark.slow
def test_a_command_works_in_tiras_wrapper_from_a_foreign_directory(tmp_path: Path) -> None:
    command = tira_commands()["knrm"].replace("/aragorn", str(ROOT))
    environment = {**os.environ, "inputDataset": str(SAMPLE), "outputDir": str(tmp_path / "output"), "HOME": "/nonexistent"}
    subprocess.run(["sh", "-c", f"sleep .1; {command}"], cwd="/", env=environment, check=True, capture_output=True)
    [message] = [message for message in check_format(tmp_path / "output", "run.txt") if isinstance(message, str)]
    assert "correct format" in message


def test_the_lock_has_what_requirements_ask_for_with_hashes() -> None:
    lock = pins("requirements.lock")
    asked = pins("requirements.txt") | pins("requirements-ray.txt")
    assert {name: lock.get(name) for name in asked} == asked
    assert pins("requirements-ray.txt").items() <= pins("tests/requirements.txt").items()
    entries = re.split(r"\n(?=[\w.-]+==)", (ROOT / "requirements.lock").read_text(encoding="utf-8"))[1:]
    assert len(entries) == len(lock)
    assert all("--hash=sha256:" in entry for entry in entries)


def test_the_image_has_the_version_and_the_base_a_digest() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"ARG VERSION={__version__}\n" in dockerfile
    assert re.search(r"^ARG BASE=docker\.io/library/python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}$", dockerfile, re.M)
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_all_that_the_dockerfile_copies_is_let_through() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = {name for line in re.findall(r"^COPY (.*) \S+$", dockerfile, re.MULTILINE) for name in line.split()}
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == let_through
    assert all((ROOT / name).exists() for name in copied)


def test_what_is_generated_is_up_to_date(tmp_path: Path) -> None:
    copy = Path(shutil.copy(ROOT / "README.md", tmp_path))
    update(readme=copy)
    assert copy.read_text(encoding="utf-8") == (ROOT / "README.md").read_text(encoding="utf-8")
    for name in SYSTEMS:
        assert f"| {name} | {SYSTEMS[name].about} |" in copy.read_text(encoding="utf-8")
    assert [line.split()[1] for line in results_table(MEASURED, CHECKPOINTS).splitlines()[2:]] != list(
        SYSTEMS
    )  # the best first


def test_sections_are_written_between_their_marks(tmp_path: Path) -> None:
    (tmp_path / "means.csv").write_text(
        "qrels,run,over,measure,topics,mean,low,high\n"
        + "".join(
            f"q,team-{s},{JUDGED},{m},9,{v},{v / 2},{v * 1.5}\n"
            for s, v in (("bm25", 0.2), ("knrm", 0.4))
            for m in MEASURES_SHOWN
        )
        + f"q,team-knrm,{COMMON},{MEASURES_SHOWN[0]},2,0.9,,\n"
    )
    (tmp_path / "fusion.csv").write_text(
        "qrels,run,over,measure,topics,mean,low,high\n"
        + "".join(f"{q},{r},{JUDGED},{m},9,0.3,0.1,0.5\n" for q in "qr" for r in ("fusion", "x") for m in MEASURES_SHOWN)
    )
    sections = ("commands", "formats", "systems", "results")
    marks = "\n".join(f"<!-- {name}: generated -->\nold\n<!-- end of {name} -->\nbetween" for name in sections)
    (tmp_path / "README.md").write_text(f"before\n{marks}\nafter\n")
    for _ in range(2):  # again: the same
        update(tmp_path / "means.csv", CHECKPOINTS, tmp_path / "README.md")
        lines = (tmp_path / "README.md").read_text().splitlines()
        assert (lines[0], lines[-1], lines.count("between")) == ("before", "after", 4)
        assert "old" not in lines
        start = lines.index("<!-- results: generated -->")
        assert lines[start + 4 : start + 8] == [
            "| knrm | 86.3 | 0.400 (0.20–0.60) | 9 | 0.400 | 0.400 | 0.400 | 0.400 | 0.400 |",  # noqa: RUF001 a range
            "| fusion, on topics of other folds |  | 0.300 (0.10–0.50) | 9 | 0.300 | 0.300 | 0.300 | 0.300 | 0.300 |",  # noqa: RUF001
            "| bm25 |  | 0.200 (0.10–0.30) | 9 | 0.200 | 0.200 | 0.200 | 0.200 | 0.200 |",  # noqa: RUF001
            "",
        ]
    (tmp_path / "README.md").write_text("no marks\n")
    with pytest.raises(InputError, match="expected the lines"):
        update(tmp_path / "means.csv", CHECKPOINTS, tmp_path / "README.md")
    with pytest.raises(InputError, match="no measured means"):
        update(tmp_path / "absent.csv", CHECKPOINTS, ROOT / "README.md")


def test_the_python_of_the_readme_works() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    [code] = [block for block in blocks if "open_checkpoint" in block]  # the others: endtoend/test_search_elsewhere.py
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert re.fullmatch(r"\[-?0\.\d+\]\n", done.stdout), done.stderr


ELSEWHERE = {  # why a command is not executed by the test below
    "docker": "the image is built and run in tests/container",
    "tira-run": "it needs docker; tests/container executes the command as it does",
    "tira-cli": "it needs an account on TIRA",
    "tests/run": "it is what executes this test",
}


@pytest.mark.slow
def test_every_command_of_the_readme_works(prepared: Path, tmp_path: Path) -> None:
    copy = tmp_path / "project"
    for name in ("run.sh", "requirements.txt", "submission", "training", "checkpoints"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            copy.mkdir(exist_ok=True)
            shutil.copy(source, copy / name)
    (copy / ".venv").symlink_to(sys.prefix)
    # To be fast: BERT networks of two small layers or one, an ensemble with them, and three of the sample's topics.
    for seed, name in enumerate(("cedr_drmm", "cedr_knrm", "vanilla_bert", "tfr_bert")):
        write_tiny(copy / "checkpoints", name, seed)
    write_deepct(copy / "checkpoints", "deepct")
    write_reordering(copy / "checkpoints", "quality", 7, 2.0)
    fitted = Checkpoints(copy / "checkpoints")
    aggregate(find("ensemble"), prepared, fitted, copy / "checkpoints" / "ensemble", torch.device("cpu"))
    topics = copy / "submission" / "sample" / "input" / "topics.xml"
    topics.write_text("<topic>".join(topics.read_text().split("<topic>")[:4]).rstrip() + "\n</topics>\n")
    # Blocks of bash need a cluster or a search engine: endtoend/test_cluster.py and test_torchrun.py have the former.
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    commands = [line for line in lines if line.split()[0] not in ELSEWHERE]
    assert {line.split()[0] for line in lines} >= set(ELSEWHERE)
    assert "./run.sh" in {command.split()[0] for command in commands}
    verbs = "check systems explain search prepare embed fit aggregate reproduce evaluate report analyse"
    assert [verb for verb in verbs.split() if not any(f" {verb} " in f"{command} " for command in commands)] == []
    variables = ("inputDataset", "outputDir", "TIRA_INPUT_DATASET", "TIRA_OUTPUT_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in variables}
    script = "set -eu\n" + "\n".join(commands)
    done = subprocess.run(["bash", "-c", script], cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    made = {str(file.relative_to(copy)) for folder in ("runs", "work") for file in (copy / folder).rglob("*")}
    assert {f"runs/aragorn-{system}.txt" for system in SYSTEMS} <= made
    assert {
        "runs/report.html",
        "runs/tables/tests.csv",
        "runs/analysis/jaccard.png",
        "work/checkpoints/sample/config.json",
    } <= made
    assert {"work/checkpoints/ensemble/config.json", "work/again/checkpoints/sample/config.json"} <= made
    assert "score" in done.stdout
    assert "weights: the same bytes" in done.stdout
