"""Tests of READMEs (links, sizes, generated sections, commands), and of Dockerfile, requirements and changelog."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tira.check_format import check_format

from submission import __version__
from submission.errors import InputError
from submission.paths import CHECKPOINT_DIR
from submission.systems.catalogue import SYSTEMS
from tests.conftest import ROOT, SAMPLE
from training.evaluation.tables import ALL_TOPICS, COMMON_TOPICS
from training.paths import SYSTEM_MEANS
from training.report.readme import SECTION_FILES, TABLE_MEASURES, results_table, update_readmes

READMES = (  # in reading order, which is also the order in which their commands are executed
    "README.md", "submission/README.md", "submission/data/README.md", "submission/systems/README.md",
    "submission/search/README.md", "submission/engine/README.md", "checkpoints/README.md", "training/README.md",
    "training/results/deepct.md", "training/results/targer.md", "training/studies/augmented_sbert/README.md",
    "training/studies/argument_quality/README.md", "training/fusion/README.md", "training/results/distillation.md",
    "training/results/README.md", "tests/README.md", "tests/benchmarks/README.md",
)  # fmt: skip
SIZES = {"README.md": 8_000, "submission/README.md": 9_600}  # maximum sizes in bytes; all others have at most MAX_SIZE
MAX_SIZE = 9_000


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the code blocks in a language, in the order of the READMEs."""
    return [block for name in READMES for block in re.findall(rf"```{language}\n(.*?)```", read(name), re.DOTALL)]


def tira_commands() -> dict[str, str]:
    """Map systems to their commands for TIRA."""
    commands = re.findall(r"^/aragorn/run\.sh .*$", read(SECTION_FILES["commands"]), re.MULTILINE)
    return {command.rpartition(" ")[2]: command for command in commands}


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings in a text."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_readmes_are_all_listed() -> None:
    files = [file for folder in ("submission", "training", "tests") for file in (ROOT / folder).rglob("README.md")]
    names = {file.relative_to(ROOT).as_posix() for file in files}
    assert {name for name in names if "/data/" not in name and "/golden/" not in name} <= {*READMES}
    assert all((ROOT / name).is_file() for name in READMES)


@pytest.mark.parametrize("name", READMES)
def test_readme_links_exist_and_size_is_limited(name: str) -> None:
    text, folder = read(name), (ROOT / name).parent
    assert len(text.encode()) <= SIZES.get(name, MAX_SIZE)
    for link in re.findall(r"\]\(([^)]+)\)", text):
        path, _, anchor = link.partition("#")
        file = folder / path if path else ROOT / name
        assert file.exists(), link
        assert not anchor or anchor in anchors(file.read_text(encoding="utf-8")), link
    for path in re.findall(r"`((?:submission|training|tests|checkpoints)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path


def test_front_page_links_to_the_main_topics() -> None:
    front_page = read("README.md")
    for phrase, target in {
        "run it": "submission/README.md",
        "how good": "training/results/README.md",
        "where BM25 is": "submission/systems/README.md",
        "add a ranker": "submission/systems/README.md",
        "checkpoint was made": "training/README.md",
        "your own judgments": "training/results/README.md",
    }.items():
        assert any(phrase in line and f"({target})" in line for line in front_page.splitlines()), phrase


def pins(file: str) -> dict[str, str]:
    """Map normalised package names to the pinned versions in a requirements file."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    versions = dict(re.findall(r"^([\w.-]+)==([\w.]+)", "\n".join(lines), re.MULTILINE))
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in versions.items()}


def test_tira_commands_cover_all_systems() -> None:
    commands = tira_commands()
    assert sorted(commands) == sorted(SYSTEMS)
    for system, command in commands.items():
        assert command == f"/aragorn/run.sh -i $inputDataset -o $outputDir --system {system}"


@pytest.mark.slow
def test_tira_command_runs_in_the_wrapper_of_tira(tmp_path: Path) -> None:
    command = tira_commands()["knrm"].replace("/aragorn", str(ROOT))
    environment = {**os.environ, "inputDataset": str(SAMPLE), "outputDir": str(tmp_path / "output"), "HOME": "/nonexistent"}
    subprocess.run(["sh", "-c", f"sleep .1; {command}"], cwd="/", env=environment, check=True, capture_output=True)
    [message] = [message for message in check_format(tmp_path / "output", "run.txt") if isinstance(message, str)]
    assert "correct format" in message


def test_lock_pins_all_requirements_with_hashes() -> None:
    lock = pins("requirements.lock")
    requirements = pins("requirements.txt") | pins("requirements-ray.txt")
    assert {name: lock.get(name) for name in requirements} == requirements
    assert pins("requirements-ray.txt").items() <= pins("tests/requirements.txt").items()
    entries = re.split(r"\n(?=[\w.-]+==)", (ROOT / "requirements.lock").read_text(encoding="utf-8"))[1:]
    assert len(entries) == len(lock)
    assert all("--hash=sha256:" in entry for entry in entries)


def test_dockerfile_pins_version_and_base_digest() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"ARG VERSION={__version__}\n" in dockerfile
    assert re.search(r"^ARG BASE=docker\.io/library/python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}$", dockerfile, re.M)
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_dockerignore_admits_all_copied_files() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = {name for line in re.findall(r"^COPY (.*) \S+$", dockerfile, re.MULTILINE) for name in line.split()}
    admitted = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == admitted
    assert all((ROOT / name).exists() for name in copied)


def test_generated_sections_are_up_to_date(tmp_path: Path) -> None:
    for path in SECTION_FILES.values():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    update_readmes(root=tmp_path)
    for path in SECTION_FILES.values():
        assert (tmp_path / path).read_text(encoding="utf-8") == read(path), path
    for name in SYSTEMS:
        assert f"| {name} | {SYSTEMS[name].description} |" in read(SECTION_FILES["systems"])
    order = [line.split()[1] for line in results_table(SYSTEM_MEANS, CHECKPOINT_DIR).splitlines()[2:]]
    assert (order[0], len(order)) == ("fusion", len(SYSTEMS))
    assert order != list(SYSTEMS)  # sorted by the first measure instead


def test_update_readmes_replaces_marked_sections(tmp_path: Path) -> None:
    (tmp_path / "means.csv").write_text(
        "qrels,run,topic_set,measure,n_topics,mean,ci_low,ci_high\n"
        + "".join(
            f"q,team-{s},{ALL_TOPICS},{m},9,{v},{v / 2},{v * 1.5}\n"
            for s, v in (("bm25", 0.2), ("knrm", 0.4), ("dirichlet", 0.9))
            for m in TABLE_MEASURES
        )
        + f"q,team-knrm,{COMMON_TOPICS},{TABLE_MEASURES[0]},2,0.9,,\n"
    )
    (tmp_path / "fusion_means.csv").write_text(
        "qrels,run,topic_set,measure,n_topics,mean,ci_low,ci_high\n"
        + "".join(f"{q},{r},{ALL_TOPICS},{m},9,0.3,0.1,0.5\n" for q in "qr" for r in ("fusion", "x") for m in TABLE_MEASURES)
    )
    for name, path in SECTION_FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"before\n<!-- {name}: generated -->\nold\n<!-- end of {name} -->\nafter\n")
    for _ in range(2):  # idempotent
        update_readmes(tmp_path / "means.csv", CHECKPOINT_DIR, tmp_path)
        for path in SECTION_FILES.values():
            lines = (tmp_path / path).read_text().splitlines()
            assert (lines[0], lines[-1]) == ("before", "after")
            assert "old" not in lines
    lines = (tmp_path / SECTION_FILES["results"]).read_text().splitlines()
    assert lines[5:8] == [
        "| dirichlet |  | 0.900 (0.45–1.35) | 9 | 0.900 | 0.900 | 0.900 | 0.900 | 0.900 |",  # noqa: RUF001 a range
        "| knrm | 86.3 | 0.400 (0.20–0.60) | 9 | 0.400 | 0.400 | 0.400 | 0.400 | 0.400 |",  # noqa: RUF001
        "| fusion (cross-validated) |  | 0.300 (0.10–0.50) | 9 | 0.300 | 0.300 | 0.300 | 0.300 | 0.300 |",  # noqa: RUF001
    ]
    best = [line.split(" | ") for line in (tmp_path / SECTION_FILES["best"]).read_text().splitlines()[5:9]]
    assert [(cells[0], *cells[2:]) for cells in best] == [
        ("| dirichlet", "0.733", "0.856", "0.715 |"),  # the cross-validated value, not .9 as in the table
        ("| knrm", "0.400 (0.20–0.60)", "0.400", "0.400 |"),  # noqa: RUF001
        ("| fusion", "0.300 (0.10–0.50)", "0.300", "0.300 |"),  # noqa: RUF001
        ("| bm25", "0.200 (0.10–0.30)", "0.200", "0.200 |"),  # noqa: RUF001
    ]
    (tmp_path / SECTION_FILES["best"]).write_text("no marks\n")
    with pytest.raises(InputError, match="expected each of the markers"):
        update_readmes(tmp_path / "means.csv", CHECKPOINT_DIR, tmp_path)
    with pytest.raises(InputError, match="cannot read means"):
        update_readmes(tmp_path / "absent.csv", CHECKPOINT_DIR, tmp_path)


def test_python_example_of_the_readme_runs() -> None:
    [code] = [block for block in blocks("python") if "load_checkpoint" in block]
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert re.fullmatch(r"\[-?0\.\d+\]\n", done.stdout), done.stderr


EXCLUDED_PROGRAMS = {  # commands that the next test does not execute
    "docker": "tests/container builds and runs the image",
    "tira-run": "requires docker; tests/container executes the command like it",
    "tira-cli": "requires an account on TIRA",
    "tests/run": "executes this test",
}


@pytest.mark.slow
def test_readme_commands_run(all_checkpoints_dir: Path, tmp_path: Path) -> None:
    copy = tmp_path / "project"
    for name in ("run.sh", "requirements.txt", "submission", "training"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            copy.mkdir(exist_ok=True)
            shutil.copy(source, copy / name)
    (copy / ".venv").symlink_to(sys.prefix)
    # For speed: untrained checkpoints of the smallest networks and three topics of the sample.
    shutil.copytree(all_checkpoints_dir, copy / "checkpoints")
    topics = copy / "submission" / "sample" / "input" / "topics.xml"
    topics.write_text("<topic>".join(topics.read_text().split("<topic>")[:4]).rstrip() + "\n</topics>\n")
    # Blocks marked bash require a cluster or a search engine: see test_ray_cluster.py and test_torchrun.py.
    lines = "".join(blocks("sh")).replace("\\\n", " ").splitlines()
    commands = dict.fromkeys(line.split("  #")[0].rstrip() for line in lines if line.split()[0] not in EXCLUDED_PROGRAMS)
    assert {line.split()[0] for line in lines} >= set(EXCLUDED_PROGRAMS)
    assert "./run.sh" in {command.split()[0] for command in commands}
    verbs = "check systems explain search prepare fit fuse reproduce evaluate report overlap"
    assert [verb for verb in verbs.split() if not any(f" {verb} " in f"{command} " for command in commands)] == []
    variables = ("inputDataset", "outputDir", "TIRA_INPUT_DATASET", "TIRA_OUTPUT_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in variables}
    script = "set -eu\n" + "\n".join(commands)
    done = subprocess.run(["bash", "-c", script], cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    outputs = {str(file.relative_to(copy)) for folder in ("runs", "work") for file in (copy / folder).rglob("*")}
    assert {f"runs/aragorn-{system}.txt" for system in SYSTEMS} <= outputs
    expected = [
        "runs/report.html",
        "runs/tables/significance.csv",
        "runs/analysis/jaccard.png",
        "work/again/checkpoints/sample/config.json",
    ]
    expected += [f"work/checkpoints/{name}/config.json" for name in ("sample", "ensemble")]
    assert {*expected} <= outputs
    assert "score" in done.stdout
    assert "weights: identical" in done.stdout
