"""Tests that users' files remain, other inputs need --overwrite, and full disks do no harm."""

import json
import os
import re
import resource
import shutil
import subprocess

import pytest

from aragorn.io.document_store import create_database
from aragorn.storage.atomic_files import build_unwritable_error
from aragorn.storage.recorded_files import open_run_directory
from tests.conftest import read_files
from tests.contract.input_files import DEEP, touche, write_files

SYSTEMS = ("--system", "bm25", "--system", "knrm")


@pytest.fixture
def output(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def rank(call, tiny_models, tmp_path, output):
    """Return a function that ranks a small input; its arguments are further flags."""
    source = write_files(tmp_path / "input", touche())
    paths = ["-i", source, "-o", output, "--checkpoints", tiny_models]
    return lambda *flags: call("rank", *paths, "--device", "cpu", *SYSTEMS, *flags)


@pytest.fixture
def small_disk(tmp_path):
    """Return a function that mounts an in-memory file system of a size in KiB, or resizes it."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def resize(kibibytes):
        remount = "remount," if disk.is_mount() else ""
        command = ["mount", "-t", "tmpfs", "-o", f"{remount}size={kibibytes}k", "tmpfs", str(disk)]
        if (
            shutil.which("mount") is None
            or subprocess.run(command, capture_output=True, check=False).returncode
        ):
            pytest.skip("mounting a small file system needs root")
        return disk

    yield resize
    if disk.is_mount():
        # indexes on the disk may still be memory-mapped
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.parametrize("content", ["", '"\udcff"', DEEP], ids=["empty", "not UTF-8", "deep"])
def test_damaged_record_of_runs_needs_overwrite(content, rank, output):
    output.mkdir()
    (output / "aragorn-bm25.txt").write_text("theirs")
    (output / "fingerprint.json").write_text(content, errors="surrogateescape")
    code, text = rank()
    assert (code, "use --overwrite" in text) == (5, True)
    assert (output / "aragorn-bm25.txt").read_text() == "theirs"
    assert rank("--overwrite")[0] == 0


def test_run_directory_in_use_is_refused(rank, output):
    with open_run_directory(output):
        code, text = rank()
    assert (code, "in use by another process" in text) == (5, True)


MALFORMED_METADATA = {
    "empty": "", "deep": DEEP[:1100], "NUL": "\x00", "a number as method": "method: {retrieval: [7]}",
    "training data in a list": "method: {retrieval: [{name: aragorn-knrm, training data: [x]}]}",
    "an object of Python": "!!python/object/apply:os.system [id]",
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED_METADATA)
def test_malformed_metadata_needs_overwrite(name, rank, output):
    output.mkdir()
    (output / "ir-metadata.yml").write_text(MALFORMED_METADATA[name])
    code, text = rank()
    assert (code, f"{output}/ir-metadata.yml: not written by" in text) == (5, True)
    assert (output / "ir-metadata.yml").read_text() == MALFORMED_METADATA[name]
    assert rank("--overwrite")[0] == 0
    names = re.findall(
        r"name: (aragorn-\w+)$", (output / "ir-metadata.yml").read_text(), re.MULTILINE
    )
    assert {*names} == {f"aragorn-{system}" for system in SYSTEMS[1::2]}


@pytest.mark.parametrize(
    "name", ["fingerprint.json", "ir-metadata.yml", "aragorn-bm25.txt", "run.txt"]
)
def test_directory_instead_of_output_file_remains(name, rank, output):
    (output / name / "theirs").mkdir(parents=True)
    assert rank()[0] == 5
    assert (output / name / "theirs").is_dir()
    shutil.rmtree(output)
    output.mkdir()
    os.mkfifo(output / name)  # neither read nor waited for
    assert rank()[0] in (0, 5)


FOREIGN_FILES = {
    "fingerprint.json": "{}",
    "fingerprint.json ": '{"inputs": {"paper": "draft"}, "files": {}}',
    "ir-metadata.yml": "method: {retrieval: [{name: aragorn-bm25, method: okapi}]}",
    "aragorn-knrm.txt": "theirs",
    "run.txt": "theirs",
}


@pytest.mark.parametrize(
    ("is_ours", "is_link"), [(False, False), (True, True)], ids=["only file", "link among runs"]
)
@pytest.mark.parametrize("name", FOREIGN_FILES)
def test_files_of_others_need_overwrite(name, is_ours, is_link, rank, output, tmp_path):
    file = output / name.strip()
    content = FOREIGN_FILES[name]
    output.mkdir()
    if is_ours:
        assert rank("--system", "bm25")[0] == 0
        file.unlink()
        if file.name in ("run.txt", "aragorn-knrm.txt"):
            record = json.loads((output / "fingerprint.json").read_text())
            del record["files"][file.name]
            (output / "fingerprint.json").write_text(json.dumps(record))
    target = tmp_path / "theirs" if is_link else file
    target.write_text(content)
    if is_link:
        file.symlink_to(target)
    code, text = rank()
    [error] = [line for line in text.splitlines() if "error: " in line]
    assert (code, file.name in error, "--overwrite" in error) == (5, True, True)
    assert target.read_text() == content
    assert rank("--overwrite")[0] == 0
    assert file.read_text() != content
    assert not is_link or (target.read_text() == content and not file.is_symlink())


@pytest.mark.parametrize("name", ["fingerprint.json", "ir-metadata.yml", "run.txt"])
def test_links_to_own_files_are_replaced(name, rank, output, tmp_path):
    """Move a file elsewhere, link to it, and rank with one more system."""
    assert rank()[0] == 0
    content = (output / name).rename(tmp_path / "elsewhere").read_bytes()
    (output / name).symlink_to(tmp_path / "elsewhere")
    assert rank("--system", "dirichlet_rm3")[0] == 0
    assert (tmp_path / "elsewhere").read_bytes() == content


def test_files_of_users_remain(rank, output, tmp_path):
    names = ["notes.txt", "aragorn-old.txt", ".aragorn-work-x/data", ".aragorn-knrm.txt.swp"]
    names += [".report.part", ".1.part", ".tmp", ".run.txt.2024-11-01.part"]
    directories = (output, tmp_path / "cache")
    for file in (directory / name for directory in directories for name in names):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(file.name)
    for flags in ((), ("--overwrite",)):
        assert rank("--cache-dir", str(tmp_path / "cache"), *flags)[0] == 0
    files = [directory / name for directory in directories for name in names]
    assert all(file.read_text() == file.name for file in files)


@pytest.mark.parametrize(
    ("flag", "path", "code"),
    [
        ("--cache-dir", "out", 2), ("--cache-dir", "out/x/..", 2),  # the output directory
        ("-o", "file", 5), ("-o", "file/x", 5), ("-o", "x" * 300, 5), ("-o", "/proc/x/y", 5),
        ("--cache-dir", "file", 5), ("--cache-dir", "/proc/x/y", 5),
        ("-i", "file", 3), ("-i", "file/x", 3), ("--input-run", "file/x", 3), ("--checkpoints", "file", 4),
    ],
)  # fmt: skip
def test_unusable_directories_are_refused(flag, path, code, rank, tmp_path):
    (tmp_path / "file").write_text("theirs")
    actual_code, text = rank(flag, str(tmp_path / path))
    assert actual_code == code
    assert not re.search("mount|permission|free disk space", text)
    assert (tmp_path / "file").read_text() == "theirs"
    assert not list(tmp_path.glob("out/aragorn-*"))


def test_full_disk_leaves_no_partial_run(rank, small_disk):
    disk = small_disk(8)
    code, text = rank("-o", str(disk), "--team", "t" * 60)
    assert (code, "No space left" in text) == (5, True)
    assert {name for name in read_files(disk) if name.startswith(".")} == set()
    assert all(content.endswith(b"\n") for content in read_files(disk).values())


def test_limit_of_file_sizes_is_named(tmp_path):
    def write():
        with create_database(tmp_path / "db") as database:
            database.execute("create table texts (text)")
            database.execute("insert into texts values (?)", ["x" * 10_000])

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as info:
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    message = "(File too large); raise the limit of file sizes (ulimit -f) or choose another"
    assert message in str(build_unwritable_error(tmp_path, info.value))


def test_output_that_is_the_input_is_refused(rank, tmp_path):
    code, text = rank("-o", str(tmp_path / "input"))
    assert (code, "input: is the input; choose another --output" in text) == (2, True)
    assert not list((tmp_path / "input").glob("aragorn-*"))


def test_full_cache_is_resumed(rank, output, tmp_path, small_disk):
    codes = []
    for kibibytes in (40, 60, 80, 64_000):
        code, text = rank("--cache-dir", str(small_disk(kibibytes)))
        codes.append(code)
        message = r"(No space left on device|disk is full)\); free disk space or choose another"
        assert code == 0 or re.search(message, text), text
    assert (codes[0], codes[1], codes[-1]) == (5, 5, 0)
    assert rank("-o", str(tmp_path / "whole"))[0] == 0
    assert read_files(output) == read_files(tmp_path / "whole")


def test_causes_of_unwritable_directories_are_named(rank, output):
    output.symlink_to("nowhere")
    code, text = rank()
    assert (code, "not a writable directory (a link without a target)" in text) == (5, True)
    output.unlink()
    (output / "aragorn-bm25.txt").mkdir(parents=True)
    code, text = rank("--overwrite")
    assert (code, f"{output}/aragorn-bm25.txt: cannot be written" in text) == (5, True)
