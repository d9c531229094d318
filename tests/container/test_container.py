"""The image, built and run as TIRA, an organiser and a team do."""

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
from tests.container.image import Image, missing, revision
from tests.unit.test_readme import tira_commands

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing() or "-")]

LARGEST = 2.5e9  # bytes of the CPU image


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where images are built: anew, or kept between test runs in the directory that ARAGORN_IMAGE names."""
    kept = os.environ.get("ARAGORN_IMAGE")
    return Path(kept) if kept else tmp_path_factory.mktemp("image")


@pytest.fixture(scope="session")
def image(place: Path) -> Image:
    return Image(place)


@pytest.fixture(scope="session")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample's corpus with three of its topics: every network, soon done. Readable by anyone."""
    directory = Path(shutil.copytree(SAMPLE, tmp_path_factory.mktemp("data") / "input"))
    topics = (SAMPLE / "topics.xml").read_text().split("<topic>")
    (directory / "topics.xml").write_text("<topic>".join(topics[:4]).rstrip() + "\n</topics>\n")
    for parent in directory.parents[:3]:
        parent.chmod(0o755)
    return directory


@pytest.fixture(scope="session")
def expected(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of a plain ./run.sh here."""
    output = tmp_path_factory.mktemp("plain")
    flags = ["-i", str(directory), "-o", str(output), "--device", "cpu"]
    subprocess.run([str(ROOT / "run.sh"), *flags], check=True, capture_output=True)
    return output


def writable(directory: Path) -> Path:
    """An output that a user without account may write to."""
    directory.mkdir()
    directory.chmod(0o777)
    return directory


def runs(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(directory.glob("*.txt"))}


def tira(image: Image, command: str, directory: Path, output: Path, input_run: Path | None = None) -> tuple[int, str]:
    """TIRA's way: variables, its wrapper around the command, its mounts."""
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


def test_labels_entry_point_and_what_is_not_inside(image: Image) -> None:
    config = image.config["OCIv1"]["config"]
    assert config["Entrypoint"] == ["/aragorn/run.sh"]
    labels = {name.rpartition(".")[2]: value for name, value in config["Labels"].items() if "opencontainers" in name}
    assert (labels["version"], labels["revision"]) == (__version__, revision())
    for name in ("gcc", "cc", "g++", "clang", "ld", "as", "make", "rustc", "nvcc"):
        assert not [place for place in ("usr/bin", "usr/local/bin") if (image.root / place / name).exists()]
    inside = {path.name for path in (image.root / "aragorn").iterdir()}
    assert inside == {"LICENSE", "THIRD-PARTY.md", "licenses", "run.sh", "requirements.txt", "requirements-ray.txt",
                      "requirements.lock", "submission", "checkpoints"}  # fmt: skip
    assert not list(image.root.glob("usr/local/lib/python3*/site-packages/ray"))  # added where it is asked for
    assert image.bytes() < LARGEST


def test_each_of_tiras_commands_writes_the_run_of_a_plain_execution(
    image: Image, directory: Path, expected: Path, tmp_path: Path
) -> None:
    commands = tira_commands()
    for system in SYSTEMS:
        output = writable(tmp_path / system)
        code, said = tira(image, commands[system], directory, output)
        assert code == 0, said
        assert sorted(file.name for file in output.iterdir()) == sorted(
            [f"aragorn-{system}.txt", "fingerprint.json", "ir-metadata.yml", "run.txt"]
        )
        assert (output / "run.txt").read_bytes() == (expected / f"aragorn-{system}.txt").read_bytes(), system
        record = json.loads((output / "fingerprint.json").read_text())
        assert record["inputs"] == json.loads((expected / "fingerprint.json").read_text())["inputs"]


def test_an_organisers_one_command_writes_all_runs(image: Image, directory: Path, expected: Path, tmp_path: Path) -> None:
    output = writable(tmp_path / "out")
    mounts = {"/in": (directory, "ro"), "/out": (output, "rw")}
    code, said = image.run(["/aragorn/run.sh", "-i", "/in", "-o", "/out"], mounts, {})
    assert code == 0, said
    assert runs(output) == runs(expected)
    assert len(runs(output)) == len(SYSTEMS) + 1


def test_an_image_with_ray_uses_all_processors(place: Path, directory: Path, expected: Path, tmp_path: Path) -> None:
    image, (output, temporary) = Image(place, ray=True), (writable(tmp_path / name) for name in ("out", "tmp"))
    assert image.bytes() < LARGEST + 0.3e9
    mounts = {"/in": (directory, "ro"), "/out": (output, "rw"), "/tmp": (temporary, "rw")}
    code, said = image.run(["/aragorn/run.sh", "-i", "/in", "-o", "/out", "--engine", "ray"], mounts, {})
    assert code == 0, said
    assert "parts in Ray" in said
    assert runs(output) == runs(expected)


def test_tirexs_form_and_an_earlier_stage(image: Image, tmp_path: Path) -> None:
    directory, earlier, output = (writable(tmp_path / name) for name in ("input", "earlier", "output"))
    (directory / "queries.jsonl").write_text('{"qid": "1", "query": "Are zoos cruel?"}\n')
    texts = {"d1": "Zoos are cruel to animals. " * 5, "d2": "Golf is a sport for all. " * 5}
    (directory / "documents.jsonl").write_text("".join(json.dumps({"docno": d, "text": t}) + "\n" for d, t in texts.items()))
    (earlier / "run.txt").write_text("1 Q0 d2 1 2.0 x\n1 Q0 d1 2 1.0 x\n")
    tmp_path.chmod(0o755)
    tmp_path.parent.chmod(0o755)
    command = tira_commands()["knrm"]
    code, said = tira(image, command, directory, output, earlier)
    assert code == 0, said
    assert {line.split()[2] for line in (output / "run.txt").read_text().splitlines()} == {"d1", "d2"}
    assert "premises and conclusion are one text" in said


def test_of_two_containers_on_one_output_the_second_is_refused(image: Image, directory: Path, tmp_path: Path) -> None:
    output = writable(tmp_path / "out")
    mounts = {"/in": (directory, "ro"), "/out": (output, "rw")}
    first = image.start(["/aragorn/run.sh", "-i", "/in", "-o", "/out"], mounts, {})
    while not (output / "fingerprint.json").exists():
        assert first.poll() is None
        time.sleep(0.1)
    code, said = image.run(["/aragorn/run.sh", "-i", "/in", "-o", "/out"], mounts, {})
    assert (code, "in use by another process" in said) == (5, True)
    first.kill()
    first.communicate()


def test_a_container_that_is_stopped_ends_in_order_and_goes_on(
    image: Image, directory: Path, expected: Path, tmp_path: Path
) -> None:
    output = writable(tmp_path / "out")
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
    assert runs(output) == runs(expected)
