"""Output and work directories that hold damaged, odd, or others' files: runs stay right, others' files stay there."""

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

from tests.conftest import ROOT, file_contents
from tests.robustness.harness import DEEP, FINISHED, Program, endless, rank_anew, write

Change = Callable[[Path], object]
ALIASES = "a: &a [x]\n" + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(20))


def replaced(content: str | bytes) -> Change:
    return lambda file: write(file, content)


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def reversed_array(file: Path) -> None:
    """Still an array; of what is none, the bytes the other way round."""
    data = file.read_bytes()
    if file.suffix == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, np.load(io.BytesIO(data))[::-1].copy())
        file.write_bytes(buffer.getvalue())
    else:
        file.write_bytes(data[::-1])


def zipped(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("array.npy", b"x")


DAMAGES: dict[str, Change] = {
    "empty": replaced(""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-3]),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"\0"),
    "a bit": flipped,
    "backwards": reversed_array,
    "a zip": zipped,
    "not there": Path.unlink,
    "a FIFO": lambda file: (file.unlink(), os.mkfifo(file)),
    "endless": endless,
}
KEPT = (
    "scores-knrm-*/part-00000.npy", "ranking-conclusions-*/ranking.msgpack", "ranking-rerank-knrm-*/ranking.msgpack",
    "ranking-latent-snrm-*/ranking.msgpack", "index-snrm-*/indptr.npy", "index-snrm-*/data.npy", "index-snrm-*/indices.npy",
    "terms-*/terms.txt", "terms-*/documents-indices.npy", "terms-*/terms-indptr.npy", "terms-*/terms-indices.npy",
    "conclusions-*/conclusions.msgpack", "documents-*/documents.sqlite", "documents-*/collection.msgpack",
)  # fmt: skip
RECORDS = {
    "empty": "", "a list": "[]", "null": "null", "an object": "{}", "a text": '"x"', "deep": DEEP, "not UTF-8": b'"\xff"',
    "a number for a file": '{"decided_by": {}, "files": {"part-00000.npy": 7}}',
    "a file without its hash": '{"decided_by": {}, "files": {"part-00000.npy": {"key": ""}}}',
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("what", KEPT)
def test_what_is_kept_and_damaged_is_made_again(again: Program, finished: Path, what: str, damage: str) -> None:
    (file,) = again.work.glob(what)
    before = file.read_bytes()
    DAMAGES[damage](file)
    said = rank_anew(again, finished, what)
    assert damage == "not there" or "rebuilding" in said
    (file,) = again.work.glob(what)
    assert file.suffix == ".sqlite" or file.read_bytes() == before


@pytest.mark.parametrize("content", RECORDS)
def test_a_damaged_record_is_made_again_and_runs_without_theirs_are_not_replaced_unasked(
    again: Program, finished: Path, content: str
) -> None:
    for what in ("scores-knrm-*/kept.json", "index-snrm-*/kept.json"):
        (file,) = again.work.glob(what)
        replaced(RECORDS[content])(file)
        rank_anew(again, finished, what)
    replaced(RECORDS[content])(again.output / "fingerprint.json")
    before = file_contents(again.output)
    code, said = again.rank(systems=FINISHED)
    assert code == 5, said
    assert "use --overwrite" in said
    assert file_contents(again.output) == before
    assert again.rank("--overwrite", systems=FINISHED)[0] == 0
    assert set(file_contents(again.output)) == set(file_contents(finished / "out"))


@pytest.mark.parametrize("damage", sorted({*DAMAGES} - {"backwards"}))
def test_a_damaged_run_is_written_again(again: Program, finished: Path, damage: str) -> None:
    DAMAGES[damage](again.output / "aragorn-knrm.txt")
    code, said = again.rank(systems=FINISHED)
    assert code == 0, said
    for name in FINISHED:
        assert (again.output / f"aragorn-{name}.txt").read_bytes() == (finished / "out" / f"aragorn-{name}.txt").read_bytes()


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", "null", "7", DEEP, "method: [", "\x00", ALIASES,
     "method: {retrieval: [7]}", "method: {retrieval: [{name: 7}]}",
     "method: {retrieval: [{name: aragorn-knrm, training data: [x]}]}",
     "method: {retrieval: [{name: aragorn-knrm, seconds: []}]}",
     "!!python/object/apply:os.system [id]"],
    ids=range(14),
)  # fmt: skip
def test_odd_metadata_is_replaced(again: Program, content: str) -> None:
    (again.output / "ir-metadata.yml").write_text(content)
    (again.output / "aragorn-knrm.txt").unlink()
    code, said = again.rank(systems=("knrm", "snrm"))
    assert code == 0, said
    assert "aragorn-knrm" in (again.output / "ir-metadata.yml").read_text()


@pytest.mark.parametrize("name", ["fingerprint.json", "ir-metadata.yml", "aragorn-bm25.txt", "run.txt"])
def test_a_directory_or_fifo_in_the_place_of_a_file(program: Program, name: str) -> None:
    (program.output / name / "theirs").mkdir(parents=True)
    code, said = program.rank()
    assert code == 5, said
    assert (program.output / name / "theirs").is_dir()
    shutil.rmtree(program.output)
    program.output.mkdir()
    os.mkfifo(program.output / name)
    code, said = program.rank()
    assert code in (0, 5), said


def test_what_others_have_there_stays(program: Program) -> None:
    theirs = [
        ".report.part",
        ".aragorn-work-x/data",
        "notes.txt",
        ".aragorn-knrm.txt.swp",
        ".1.part",
        "aragorn-old.txt",
        ".tmp",
    ]
    for place in (program.output, program.work):
        for name in theirs:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(name)
    for flags in ([], ["--overwrite"]):
        assert program.rank("--work", str(program.work), *flags, systems=("bm25", "knrm"))[0] == 0
    for place in (program.output, program.work):
        assert {name: (place / name).read_text() for name in theirs} == dict(zip(theirs, theirs, strict=True))


def test_output_and_work_that_are_one(program: Program) -> None:
    for same in (program.output, program.output / "x" / "..", program.output / ".." / "out"):
        code, said = program.rank("--work", str(same))
        assert code == 2, said
        assert "must differ from --output" in said
    assert not program.output.exists()


@pytest.mark.parametrize("where", ["file", "file/x", "x" * 300, "/proc/x/y"], ids=["a file", "below a file", "long", "/proc"])
@pytest.mark.parametrize("flag", ["-o", "--work"])
def test_places_that_cannot_be(program: Program, flag: str, where: str) -> None:
    file = program.input.parent / "file"
    file.write_text("theirs")
    code, said = program.rank(flag, str(file.parent / where))  # of two outputs the last one counts
    assert code == 5, said
    assert file.read_text() == "theirs"


def test_a_limit_of_file_sizes_leaves_nothing(program: Program) -> None:
    places = ["-i", program.input, "-o", program.output, "--checkpoints", program.checkpoints, "--system", "bm25"]
    script = (
        "import resource, sys; from submission.__main__ import main; import submission.rank\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60)); sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, "rank", *places]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stderr
    assert "cannot be written (disk I/O error)" in done.stderr  # of the documents
    assert "Traceback" not in done.stderr
    assert list(program.output.iterdir()) == []


@pytest.fixture
def small_disk(program: Program) -> Iterator[Callable[[str], None]]:
    """The working directory on a disk of its own, whose size can be set."""

    def mount(*arguments: str) -> None:
        subprocess.run(["mount", *arguments, str(program.work)], check=True, capture_output=True)

    program.work.mkdir()
    try:
        mount("-t", "tmpfs", "-o", "size=40k", "tmpfs")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no disk can be mounted here: that takes root, and a container more than that")
    yield lambda size: mount("-o", f"remount,size={size}")
    subprocess.run(["umount", "--lazy", str(program.work)], check=True)


def test_a_full_disk_stops_an_execution_which_goes_on_when_there_is_room(
    program: Program, small_disk: Callable[[str], None]
) -> None:
    systems, codes = ("bm25", "knrm", "dirichlet_rm3"), []
    for size in ("40k", "60k", "80k", "64m"):
        small_disk(size)
        code, said = program.rank("--work", str(program.work), systems=systems)
        codes.append(code)
        assert code == 0 or re.search(r"(No space left on device|disk is full)\); free disk space or choose another", said), (
            said
        )
    assert (codes[0], codes[1], codes[-1]) == (5, 5, 0)
    found = file_contents(program.output)
    shutil.rmtree(program.output)
    assert program.rank(systems=systems)[0] == 0
    assert {name for name, content in file_contents(program.output).items() if content != found[name]} <= {"ir-metadata.yml"}
