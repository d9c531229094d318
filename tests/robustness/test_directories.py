"""Tests that damaged or foreign files in output and cache directories do not change runs, and that foreign files remain."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT, read_files
from tests.robustness.harness import DEEP, FINISHED, Program, link_to_zero, rank_again, write

Change = Callable[[Path], object]
ALIASES = "a: &a [x]\n" + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(20))


def replace_with(content: str | bytes) -> Change:
    return lambda file: write(file, content)


def flip_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def reverse(file: Path) -> None:
    """Reverse the rows of an array, or the bytes of another file."""
    data = file.read_bytes()
    if file.suffix == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, np.load(io.BytesIO(data))[::-1].copy())
        file.write_bytes(buffer.getvalue())
    else:
        file.write_bytes(data[::-1])


def replace_by_zip(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("array.npy", b"x")


DAMAGES: dict[str, Change] = {
    "empty": replace_with(""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-3]),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"\0"),
    "a bit": flip_bit,
    "backwards": reverse,
    "a zip": replace_by_zip,
    "not there": Path.unlink,
    "a FIFO": lambda file: (file.unlink(), os.mkfifo(file)),
    "endless": link_to_zero,
}
ARTIFACTS = (
    "scores-knrm-*/part-00000.npy", "ranking-conclusion*/ranking.msgpack", "ranking-rerank*-knrm-*/ranking.msgpack",
    "ranking-latent*-snrm-*/ranking.msgpack", "index-snrm-*/indptr.npy", "index-snrm-*/data.npy", "index-snrm-*/indices.npy",
    "terms-*/terms.txt", "terms-*/documents-indices.npy", "terms-*/terms-indptr.npy", "terms-*/terms-indices.npy",
    "conclusions-*/conclusions.msgpack", "documents-*/documents.sqlite", "documents-*/collection.msgpack",
)  # fmt: skip
MANIFESTS = {
    "empty": "", "a list": "[]", "null": "null", "an object": "{}", "a text": '"x"', "deep": DEEP, "not UTF-8": b'"\xff"',
    "a number for a file": '{"inputs": {}, "files": {"part-00000.npy": 7}}',
    "a file without its hash": '{"inputs": {}, "files": {"part-00000.npy": {"key": ""}}}',
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("pattern", ARTIFACTS)
def test_damaged_artifacts_are_rebuilt(finished_program: Program, finished: Path, pattern: str, damage: str) -> None:
    (file,) = finished_program.work.glob(pattern)
    before = file.read_bytes()
    DAMAGES[damage](file)
    output = rank_again(finished_program, finished, pattern)
    assert damage == "not there" or "rebuilding" in output
    (file,) = finished_program.work.glob(pattern)
    assert file.suffix == ".sqlite" or file.read_bytes() == before


@pytest.mark.parametrize("content", MANIFESTS)
def test_damaged_manifest_is_rebuilt_but_output_needs_overwrite(
    finished_program: Program, finished: Path, content: str
) -> None:
    for pattern in ("scores-knrm-*/manifest.json", "index-snrm-*/manifest.json"):
        (file,) = finished_program.work.glob(pattern)
        replace_with(MANIFESTS[content])(file)
        rank_again(finished_program, finished, pattern)
    replace_with(MANIFESTS[content])(finished_program.output / "fingerprint.json")
    before = read_files(finished_program.output)
    code, output = finished_program.rank(systems=FINISHED)
    assert code == 5, output
    assert "use --overwrite" in output
    assert read_files(finished_program.output) == before
    assert finished_program.rank("--overwrite", systems=FINISHED)[0] == 0
    assert set(read_files(finished_program.output)) == set(read_files(finished / "out"))


@pytest.mark.parametrize("damage", sorted({*DAMAGES} - {"backwards"}))
def test_damaged_run_is_rewritten(finished_program: Program, finished: Path, damage: str) -> None:
    DAMAGES[damage](finished_program.output / "aragorn-knrm.txt")
    code, output = finished_program.rank(systems=FINISHED)
    assert code == 0, output
    for name in FINISHED:
        assert (finished_program.output / f"aragorn-{name}.txt").read_bytes() == (
            finished / "out" / f"aragorn-{name}.txt"
        ).read_bytes()


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", "null", "7", DEEP, "method: [", "\x00", ALIASES,
     "method: {retrieval: [7]}", "method: {retrieval: [{name: 7}]}",
     "method: {retrieval: [{name: aragorn-knrm, training data: [x]}]}",
     "method: {retrieval: [{name: aragorn-knrm, seconds: []}]}",
     "!!python/object/apply:os.system [id]"],
    ids=range(14),
)  # fmt: skip
def test_odd_metadata_is_replaced(finished_program: Program, content: str) -> None:
    (finished_program.output / "ir-metadata.yml").write_text(content)
    (finished_program.output / "aragorn-knrm.txt").unlink()
    code, output = finished_program.rank(systems=("knrm", "snrm"))
    assert code == 0, output
    assert "aragorn-knrm" in (finished_program.output / "ir-metadata.yml").read_text()


@pytest.mark.parametrize("name", ["fingerprint.json", "ir-metadata.yml", "aragorn-bm25.txt", "run.txt"])
def test_directory_or_fifo_instead_of_output_file(program: Program, name: str) -> None:
    (program.output / name / "theirs").mkdir(parents=True)
    code, output = program.rank()
    assert code == 5, output
    assert (program.output / name / "theirs").is_dir()
    shutil.rmtree(program.output)
    program.output.mkdir()
    os.mkfifo(program.output / name)
    code, output = program.rank()
    assert code in (0, 5), output


def test_foreign_files_remain(program: Program) -> None:
    names = [".report.part", ".aragorn-work-x/data", "notes.txt", ".aragorn-knrm.txt.swp", ".1.part", "aragorn-old.txt", ".tmp"]
    for directory in (program.output, program.work):
        for name in names:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(name)
    for flags in ([], ["--overwrite"]):
        assert program.rank("--cache-dir", str(program.work), *flags, systems=("bm25", "knrm"))[0] == 0
    for directory in (program.output, program.work):
        assert all((directory / name).read_text() == name for name in names)


def test_output_and_cache_must_differ(program: Program) -> None:
    for directory in (program.output, program.output / "x" / "..", program.output / ".." / "out"):
        code, output = program.rank("--cache-dir", str(directory))
        assert code == 2, output
        assert "must differ from --output" in output
    assert not program.output.exists()


@pytest.mark.parametrize("path", ["file", "file/x", "x" * 300, "/proc/x/y"], ids=["a file", "below a file", "long", "/proc"])
@pytest.mark.parametrize("flag", ["-o", "--cache-dir"])
def test_impossible_directories_are_rejected(program: Program, flag: str, path: str) -> None:
    file = program.input.parent / "file"
    file.write_text("theirs")
    code, output = program.rank(flag, str(file.parent / path))  # the last of several -o flags counts
    assert code == 5, output
    assert file.read_text() == "theirs"


def test_file_size_limit_leaves_no_output(program: Program) -> None:
    paths = ["-i", program.input, "-o", program.output, "--checkpoints", program.checkpoints, "--system", "bm25"]
    script = (
        "import resource, sys; from submission.__main__ import main; import submission.rank\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60)); sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, "rank", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stderr
    assert "cannot be written (disk I/O error)" in done.stderr  # of documents.sqlite
    assert "Traceback" not in done.stderr
    assert list(program.output.iterdir()) == []


@pytest.fixture
def small_disk(program: Program) -> Iterator[Callable[[str], None]]:
    """Mount a small disk at the cache directory, and return a function that resizes it."""

    def mount(*arguments: str) -> None:
        subprocess.run(["mount", *arguments, str(program.work)], check=True, capture_output=True)

    program.work.mkdir()
    try:
        mount("-t", "tmpfs", "-o", "size=40k", "tmpfs")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a disk needs root (and privileges in a container)")
    yield lambda size: mount("-o", f"remount,size={size}")
    subprocess.run(["umount", "--lazy", str(program.work)], check=True)


def test_execution_resumes_after_full_disk(program: Program, small_disk: Callable[[str], None]) -> None:
    systems, codes = ("bm25", "knrm", "dirichlet_rm3"), []
    for size in ("40k", "60k", "80k", "64m"):
        small_disk(size)
        code, output = program.rank("--cache-dir", str(program.work), systems=systems)
        codes.append(code)
        message = r"(No space left on device|disk is full)\); free disk space or choose another"
        assert code == 0 or re.search(message, output), output
    assert (codes[0], codes[1], codes[-1]) == (5, 5, 0)
    resumed = read_files(program.output)
    shutil.rmtree(program.output)
    assert program.rank(systems=systems)[0] == 0
    differing = {name for name, content in read_files(program.output).items() if content != resumed[name]}
    assert differing <= {"ir-metadata.yml"}
