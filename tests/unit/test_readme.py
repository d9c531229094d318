"""What the README tells TIRA's users, and what the image's files say about each other."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tira.check_format import check_format

from submission import __version__
from submission.systems import CHECKPOINTS, all_systems
from tests.conftest import ROOT, SAMPLE

SYSTEMS = [system.name for system in all_systems(CHECKPOINTS)]


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


def test_a_command_for_each_system_without_double_quotes() -> None:
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
    assert {name: lock.get(name) for name in pins("requirements.txt")} == pins("requirements.txt")
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
