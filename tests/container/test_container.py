"""Tests of the container image: contents, runs of all systems, locking and interruptions."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from aragorn import __version__
from aragorn.systems.catalogue import SYSTEMS
from tests.conftest import ROOT, SAMPLE
from tests.container.image import Image, find_obstacle, read_revision
from tests.unit.test_readme import read_tira_commands

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(find_obstacle()), reason=find_obstacle() or "-"),
]

COMMAND = ["/aragorn/run.sh", "-i", "/in", "-o", "/out"]
MAX_IMAGE_BYTES = 1.2e9  # maximum size of the CPU image


@pytest.fixture(scope="session")
def build_dir(tmp_path_factory):
    """Return the build directory: ARAGORN_IMAGE, which later runs reuse, or a temporary one."""
    persistent = os.environ.get("ARAGORN_IMAGE")
    return Path(persistent) if persistent else tmp_path_factory.mktemp("image")


@pytest.fixture(scope="session")
def image(build_dir):
    """Build the CPU image."""
    return Image(build_dir)


@pytest.fixture(scope="session")
def input_dir(tmp_path_factory):
    """Copy three topics and the corpus of the sample to a directory that all users can read."""
    input_dir = Path(shutil.copytree(SAMPLE, tmp_path_factory.mktemp("data") / "input"))
    topics = (SAMPLE / "topics.xml").read_text().split("<topic>")
    (input_dir / "topics.xml").write_text("<topic>".join(topics[:4]).rstrip() + "\n</topics>\n")
    for parent in input_dir.parents[:3]:
        parent.chmod(0o755)
    return input_dir


@pytest.fixture(scope="session")
def expected_dir(input_dir, tmp_path_factory):
    """Write the runs of all systems with run.sh outside the container; return their directory."""
    output = tmp_path_factory.mktemp("plain")
    flags = ["-i", str(input_dir), "-o", str(output), "--device", "cpu"]
    subprocess.run([str(ROOT / "run.sh"), *flags], check=True, capture_output=True)
    return output


def create_writable(directory):
    """Create a directory that all users can write to."""
    directory.mkdir()
    directory.chmod(0o777)
    return directory


def read_runs(directory):
    """Map the name of each run file in a directory to its content."""
    return {file.name: file.read_bytes() for file in sorted(directory.glob("*.txt"))}


def run_like_tira(image, system, input_dir, output, input_run=None):
    """Run a system's command with TIRA's variables, shell and mounts; return the log."""
    mounts = {"/tira-data/input": (input_dir, "ro"), "/tira-data/output": (output, "rw")}
    environment = {"TIRA_DATASET_ID": "id"}
    environment |= dict.fromkeys(("inputDataset", "TIRA_INPUT_DATASET"), "/tira-data/input")
    environment |= dict.fromkeys(("outputDir", "TIRA_OUTPUT_DIR"), "/tira-data/output")
    if input_run:
        environment["inputRun"] = "/tira-data/input-run"
        mounts["/tira-data/input-run"] = (input_run, "ro")
    command = ["sh", "-c", f"sleep .1; {read_tira_commands()[system]}"]
    code, log = image.run(command, mounts, environment)
    assert code == 0, log
    return log


def test_image_labels_entry_point_and_contents(image):
    config = image.config["OCIv1"]["config"]
    assert config["Entrypoint"] == ["/aragorn/run.sh"]
    labels = {
        name.rpartition(".")[2]: value
        for name, value in config["Labels"].items()
        if "opencontainers" in name
    }
    assert (labels["version"], labels["revision"]) == (__version__, read_revision())
    for name in ("gcc", "cc", "g++", "clang", "ld", "as", "make", "rustc", "nvcc"):
        assert not any((image.root / path / name).exists() for path in ("usr/bin", "usr/local/bin"))
    expected = {f"requirements{name}.lock" for name in ("", "-cpu", "-cuda", "-ray", "-openvino")}
    expected |= {"LICENSE", "THIRD-PARTY.md", "licenses", ".installed"}
    expected |= {"run.sh", "submission", "checkpoints"}
    assert {path.name for path in (image.root / "aragorn").iterdir()} == expected
    for package in ("ray", "openvino", "transformers", "sentence_transformers", "sklearn", "sympy"):
        assert not list(image.root.glob(f"usr/local/lib/python3*/*-packages/{package}"))
    assert image.measure_size() < MAX_IMAGE_BYTES


@pytest.mark.parametrize("system", SYSTEMS)
def test_tira_commands_write_the_runs_of_run_sh(system, image, input_dir, expected_dir, tmp_path):
    output = create_writable(tmp_path / system)
    run_like_tira(image, system, input_dir, output)
    files = {file.name for file in output.iterdir()}
    assert files == {f"YOURTEAM-{system}.txt", "fingerprint.json", "ir-metadata.yml", "run.txt"}
    run = (output / "run.txt").read_text().replace(" YOURTEAM-", " aragorn-")
    assert run == (expected_dir / f"aragorn-{system}.txt").read_text()
    inputs = [
        json.loads((folder / "fingerprint.json").read_text())["inputs"]
        for folder in (output, expected_dir)
    ]
    assert inputs[0] == {**inputs[1], "team or label": "YOURTEAM"}


def test_image_with_ray_writes_the_same_runs(build_dir, input_dir, expected_dir, tmp_path):
    image, (output, temporary_dir) = (
        Image(build_dir, "ray"),
        (create_writable(tmp_path / name) for name in ("out", "tmp")),
    )
    assert image.measure_size() < MAX_IMAGE_BYTES + 0.3e9
    mounts = {"/in": (input_dir, "ro"), "/out": (output, "rw"), "/tmp": (temporary_dir, "rw")}
    code, log = image.run([*COMMAND, "--engine", "ray"], mounts, {})
    assert code == 0, log
    assert "engine Ray" in log
    assert read_runs(output) == read_runs(expected_dir)


@pytest.mark.parametrize(
    "inputs", [["/t", "/c"], ["/t/topics.xml", "/z/argsme.zip"]], ids=["two mounts", "archive"]
)
def test_topics_and_corpus_may_be_separate(inputs, image, input_dir, expected_dir, tmp_path):
    topics_dir, corpus_dir, archive_dir, output = (
        create_writable(tmp_path / name) for name in ("t", "c", "z", "out")
    )
    tmp_path.chmod(0o755)
    tmp_path.parent.chmod(0o755)
    shutil.copy(input_dir / "topics.xml", topics_dir)
    with ZipFile(archive_dir / "argsme.zip", "w", ZIP_DEFLATED) as archive:
        for file in input_dir.glob("*.json"):
            shutil.copy(file, corpus_dir)
            archive.write(file, f"argsme/{file.name}")
    mounts = {"/t": (topics_dir, "ro"), "/c": (corpus_dir, "ro"), "/z": (archive_dir, "ro")}
    mounts["/out"] = (output, "rw")
    flags = [text for path in inputs for text in ("-i", path)]
    flags += ["--system", "dirichlet", "--system", "knrm"]
    code, log = image.run(["/aragorn/run.sh", *flags, "-o", "/out"], mounts, {})
    assert code == 0, log
    runs = read_runs(output)
    expected_runs = read_runs(expected_dir)
    assert runs == {"run.txt": expected_runs["aragorn-dirichlet.txt"]} | {
        name: expected_runs[name] for name in ("aragorn-dirichlet.txt", "aragorn-knrm.txt")
    }


def test_input_run_is_reranked_on_tirex_input(image, tmp_path):
    input_dir, input_run, output = (
        create_writable(tmp_path / name) for name in ("input", "input-run", "output")
    )
    (input_dir / "queries.jsonl").write_text('{"qid": "1", "query": "Are zoos cruel?"}\n')
    texts = {"d1": "Zoos are cruel to animals. " * 5, "d2": "Golf is a sport for all. " * 5}
    (input_dir / "documents.jsonl").write_text(
        "".join(json.dumps({"docno": d, "text": t}) + "\n" for d, t in texts.items())
    )
    (input_run / "run.txt").write_text("1 Q0 d2 1 2.0 x\n1 Q0 d1 2 1.0 x\n")
    tmp_path.chmod(0o755)
    tmp_path.parent.chmod(0o755)
    log = run_like_tira(image, "knrm", input_dir, output, input_run)
    lines = (output / "run.txt").read_text().splitlines()
    assert {line.split()[2] for line in lines} == {"d1", "d2"}
    assert "text is used as conclusion and premise" in log


def test_interrupted_container_exits_cleanly_and_resumes(image, input_dir, expected_dir, tmp_path):
    output = create_writable(tmp_path / "out")
    mounts = {"/in": (input_dir, "ro"), "/out": (output, "rw")}
    process = image.start(COMMAND, mounts, {})
    while not (output / "fingerprint.json").exists():
        assert process.poll() is None
        time.sleep(0.1)
    # process 1 of the container
    [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGTERM)
    assert "interrupted; run the same command again" in process.communicate()[1]
    assert not [file for file in output.iterdir() if file.name.startswith(".")]
    code, log = image.run(COMMAND, mounts, {})
    assert code == 0, log
    assert read_runs(output) == read_runs(expected_dir)
    assert len(read_runs(output)) == len(SYSTEMS) + 1
