"""The image, built and run as by TIRA, an organiser and a team."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from submission import __version__
from submission.systems.catalogue import SYSTEMS
from tests.conftest import ROOT, SAMPLE
from tests.container.image import Image, find_obstacle, read_revision
from tests.unit.test_readme import tira_commands

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(find_obstacle()), reason=find_obstacle() or "-")]

MAX_BYTES = 2.5e9  # of the CPU image


@pytest.fixture(scope="session")
def build_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create the build directory; the variable ARAGORN_IMAGE names one to reuse across test runs."""
    persistent = os.environ.get("ARAGORN_IMAGE")
    return Path(persistent) if persistent else tmp_path_factory.mktemp("image")


@pytest.fixture(scope="session")
def image(build_dir: Path) -> Image:
    return Image(build_dir)


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the sample with three of its topics, for speed, readable by all users."""
    directory = Path(shutil.copytree(SAMPLE, tmp_path_factory.mktemp("data") / "input"))
    topics = (SAMPLE / "topics.xml").read_text().split("<topic>")
    (directory / "topics.xml").write_text("<topic>".join(topics[:4]).rstrip() + "\n</topics>\n")
    for parent in directory.parents[:3]:
        parent.chmod(0o755)
    return directory


@pytest.fixture(scope="session")
def expected(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the runs of ./run.sh on this machine."""
    output = tmp_path_factory.mktemp("plain")
    flags = ["-i", str(directory), "-o", str(output), "--device", "cpu"]
    subprocess.run([str(ROOT / "run.sh"), *flags], check=True, capture_output=True)
    return output


def make_writable(directory: Path) -> Path:
    """Create a directory that is writable for a user without account."""
    directory.mkdir()
    directory.chmod(0o777)
    return directory


def read_runs(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(directory.glob("*.txt"))}


def run_like_tira(image: Image, command: str, directory: Path, output: Path, input_run: Path | None = None) -> tuple[int, str]:
    """Run a command with TIRA's variables, wrapper and mounts."""
    mounts = {"/tira-data/input": (directory, "ro"), "/tira-data/output": (output, "rw")}
    environment = {
        "inputDataset": "/tira-data/input",
        "outputDir": "/tira-data/output",
        "TIRA_INPUT_DATASET": "/tira-data/input",
        "TIRA_OUTPUT_DIR": "/tira-data/output",
        "TIRA_DATASET_ID": "id",
    }
    if input_run:
        mounts["/tira-data/input-run"], environment["inputRun"] = (input_run, "ro"), "/tira-data/input-run"
    return image.run(["sh", "-c", f"sleep .1; {command}"], mounts, environment)


def test_image_labels_entry_point_and_contents(image: Image) -> None:
    config = image.config["OCIv1"]["config"]
    assert config["Entrypoint"] == ["/aragorn/run.sh"]
    labels = {name.rpartition(".")[2]: value for name, value in config["Labels"].items() if "opencontainers" in name}
    assert (labels["version"], labels["revision"]) == (__version__, read_revision())
    for name in ("gcc", "cc", "g++", "clang", "ld", "as", "make", "rustc", "nvcc"):
        assert not [path for path in ("usr/bin", "usr/local/bin") if (image.root / path / name).exists()]
    files = {path.name for path in (image.root / "aragorn").iterdir()}
    assert files == {"LICENSE", "THIRD-PARTY.md", "licenses", "run.sh", "requirements.txt", "requirements-ray.txt",
                      "requirements.lock", "submission", "checkpoints"}  # fmt: skip
    assert not list(image.root.glob("usr/local/lib/python3*/site-packages/ray"))  # only with RAY=yes
    assert image.measure_size() < MAX_BYTES


def test_tira_commands_write_the_runs_of_run_sh(image: Image, directory: Path, expected: Path, tmp_path: Path) -> None:
    commands = tira_commands()
    for system in SYSTEMS:
        output = make_writable(tmp_path / system)
        code, log = run_like_tira(image, commands[system], directory, output)
        assert code == 0, log
        assert sorted(file.name for file in output.iterdir()) == sorted(
            [f"aragorn-{system}.txt", "fingerprint.json", "ir-metadata.yml", "run.txt"]
        )
        assert (output / "run.txt").read_bytes() == (expected / f"aragorn-{system}.txt").read_bytes(), system
        record = json.loads((output / "fingerprint.json").read_text())
        assert record["inputs"] == json.loads((expected / "fingerprint.json").read_text())["inputs"]


def test_default_command_writes_all_runs(image: Image, directory: Path, expected: Path, tmp_path: Path) -> None:
    output = make_writable(tmp_path / "out")
    mounts = {"/in": (directory, "ro"), "/out": (output, "rw")}
    code, log = image.run(["/aragorn/run.sh", "-i", "/in", "-o", "/out"], mounts, {})
    assert code == 0, log
    assert read_runs(output) == read_runs(expected)
    assert len(read_runs(output)) == len(SYSTEMS) + 1


def test_image_with_ray_writes_the_same_runs(build_dir: Path, directory: Path, expected: Path, tmp_path: Path) -> None:
    image, (output, temporary) = Image(build_dir, ray=True), (make_writable(tmp_path / name) for name in ("out", "tmp"))
    assert image.measure_size() < MAX_BYTES + 0.3e9
    mounts = {"/in": (directory, "ro"), "/out": (output, "rw"), "/tmp": (temporary, "rw")}
    code, log = image.run(["/aragorn/run.sh", "-i", "/in", "-o", "/out", "--engine", "ray"], mounts, {})
    assert code == 0, log
    assert "parts in Ray" in log
    assert read_runs(output) == read_runs(expected)


def test_tirex_input_with_input_run(image: Image, tmp_path: Path) -> None:
    directory, input_run, output = (make_writable(tmp_path / name) for name in ("input", "input-run", "output"))
    (directory / "queries.jsonl").write_text('{"qid": "1", "query": "Are zoos cruel?"}\n')
    texts = {"d1": "Zoos are cruel to animals. " * 5, "d2": "Golf is a sport for all. " * 5}
    (directory / "documents.jsonl").write_text("".join(json.dumps({"docno": d, "text": t}) + "\n" for d, t in texts.items()))
    (input_run / "run.txt").write_text("1 Q0 d2 1 2.0 x\n1 Q0 d1 2 1.0 x\n")
    tmp_path.chmod(0o755)
    tmp_path.parent.chmod(0o755)
    command = tira_commands()["knrm"]
    code, log = run_like_tira(image, command, directory, output, input_run)
    assert code == 0, log
    assert {line.split()[2] for line in (output / "run.txt").read_text().splitlines()} == {"d1", "d2"}
    assert "premises and conclusion are one text" in log


def test_second_container_on_the_same_output_fails(image: Image, directory: Path, tmp_path: Path) -> None:
    output = make_writable(tmp_path / "out")
    mounts = {"/in": (directory, "ro"), "/out": (output, "rw")}
    first = image.start(["/aragorn/run.sh", "-i", "/in", "-o", "/out"], mounts, {})
    while not (output / "fingerprint.json").exists():
        assert first.poll() is None
        time.sleep(0.1)
    code, log = image.run(["/aragorn/run.sh", "-i", "/in", "-o", "/out"], mounts, {})
    assert (code, "in use by another process" in log) == (5, True)
    first.kill()
    first.communicate()


def test_stopped_container_exits_cleanly_and_resumes(image: Image, directory: Path, expected: Path, tmp_path: Path) -> None:
    output = make_writable(tmp_path / "out")
    mounts = {"/in": (directory, "ro"), "/out": (output, "rw")}
    process = image.start(["/aragorn/run.sh", "-i", "/in", "-o", "/out"], mounts, {})
    while not (output / "fingerprint.json").exists():
        assert process.poll() is None
        time.sleep(0.1)
    [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()  # process 1 of the container
    os.kill(int(child), signal.SIGTERM)
    assert "interrupted; run the same command again" in process.communicate()[1]
    assert not [file for file in output.iterdir() if file.name.startswith(".")]
    assert image.run(["/aragorn/run.sh", "-i", "/in", "-o", "/out"], mounts, {})[0] == 0
    assert read_runs(output) == read_runs(expected)
