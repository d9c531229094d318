"""Tests that what the operating system refuses ends each verb with one error line."""

import errno
import logging
from pathlib import Path
from zipfile import ZipFile

import pytest

from aragorn import cli
from aragorn.__main__ import main as aragorn
from aragorn_training.__main__ import main as training
from tests.conftest import SAMPLE

LONG = "x" * 300
INPUT = str(SAMPLE)


def fail_with(error):
    """Return the exit code of a verb that raises an error."""

    def fail(args):
        raise error

    parser = cli.ArgumentParser()
    verb = cli.Commands(parser).add("verb", fail, "fail")
    for name, default in {"cache_dir": "cache", "checkpoint_dir": "models"}.items():
        verb.add_argument(f"--{name}", type=Path, default=Path(default))
    verb.add_argument("--inputs", type=Path, nargs="+", default=[Path("in")])
    return cli.run_command(parser, ["verb"])


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (OSError(errno.EACCES, "Permission denied", "/etc/a"), 3, "/etc/a: Permission denied"),
        (FileNotFoundError(errno.ENOENT, "No such file", "in/a"), 3, "in/a: No such file"),
        (FileNotFoundError(errno.ENOENT, "No such file", b"cache/x"), 5, "cache/x: No such file"),
        (OSError(errno.ELOOP, "Too many levels", "cache/x"), 5, "cache/x: Too many levels"),
        (OSError(errno.EACCES, "Permission denied", "models"), 4, "models: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device"), 5, "No space left on device"),
        (OSError(errno.EMFILE, "Too many open files"), 1, "Too many open files"),
        (RuntimeError("can't start new thread"), 9, "raise the limit (ulimit -u"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), 9, "unavailable"),
    ],
)
def test_errors_of_the_system_have_an_exit_code(error, code, text, capsys):
    assert fail_with(error) == code
    output = capsys.readouterr().err
    assert output.startswith("error: ")
    assert output.count("\n") == 1
    assert text in output


@pytest.mark.parametrize(
    "error",
    [
        RecursionError("maximum recursion depth exceeded"),
        FileNotFoundError(errno.ENOENT, "No such file or directory", "/package/words.txt"),
        NotADirectoryError(errno.ENOTDIR, "Not a directory", "/package/words.txt/a"),
        OSError(errno.EBADF, "Bad file descriptor"),
        OSError(errno.EBADF, "Bad file descriptor", 7),
        OSError("12 requested and 7 written"),
        RuntimeError("expected a square matrix"),
    ],
)
def test_errors_of_the_program_keep_their_traceback(error, capsys):
    with pytest.raises(type(error)) as raised:
        fail_with(error)
    assert raised.value is error
    assert capsys.readouterr().err == ""


RANK = ["rank", "--system", "bm25"]
CASES = {
    "long input": ([*RANK, "-o", "out", "-i", LONG], 3),
    "long run": ([*RANK, "-o", "out", "-i", INPUT, "--input-run", LONG], 3),
    "long output": ([*RANK, "-o", LONG, "-i", INPUT], 5),
    "long cache": ([*RANK, "-o", "out", "-i", INPUT, "--cache-dir", LONG], 5),
    "long checkpoints": ([*RANK, "-o", "out", "-i", INPUT, "--checkpoints", LONG], 4),
    "long input of search": (["search", "-i", LONG, "zoos"], 3),
    "long member": ([*RANK, "-o", "out", "-i", "long.zip"], 3),
    "loop as input": ([*RANK, "-o", "out", "-i", "loop"], 3),
    "loop as output": ([*RANK, "-o", "loop", "-i", INPUT], 5),
    "loop as cache": ([*RANK, "-o", "out", "-i", INPUT, "--cache-dir", "loop"], 5),
    "loop as checkpoints": (
        ["rank", "--system", "knrm", "-o", "out", "-i", INPUT, "--checkpoints", "loop"],
        4,
    ),
    "loop as run": ([*RANK, "-o", "linked", "-i", INPUT], 5),
    "deep recipe": (["fit", "deep.toml", "-o", "out", "--work-dir", "work"], 2),
    "deep grid": (["tune", "deep.toml", "-o", "out", "-i", INPUT, "--qrels", "qrels"], 2),
    "long recipe": (["fit", f"{LONG}.toml", "-o", "out", "--work-dir", "work"], 2),
    "long qrels": (["evaluate", "--qrels", LONG, "run.txt"], 3),
    "long runs of overlap": (["overlap", LONG], 3),
}


@pytest.mark.parametrize("case", CASES)
def test_paths_and_configurations_end_in_one_line(case, tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    Path("linked").mkdir()
    Path("linked/aragorn-bm25.txt").symlink_to("aragorn-bm25.txt")
    Path("deep.toml").write_text(f"a = {'[' * 5000}{']' * 5000}")
    with ZipFile("long.zip", "w") as archive:
        archive.writestr(f"topics{LONG}.xml", "<topics/>")
    Path("run.txt").write_text("1 Q0 a1 1 2 t\n")
    Path("qrels").write_text("1 0 a1 2\n")
    command, expected = CASES[case]
    main = aragorn if command[0] in ("rank", "check", "search") else training
    code = main(command)
    errors = [line for line in capsys.readouterr().err.split("\n") if "error: " in line]
    assert (code, len(errors)) == (expected, 1), errors
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.parametrize(
    ("error", "code", "has_traceback"),
    [
        (RuntimeError("can't start new thread"), 9, False),
        (OSError(errno.EMFILE, "Too many open files"), 1, False),
        (RecursionError("maximum recursion depth exceeded"), 0, True),
        (FileNotFoundError(errno.ENOENT, "No such file", "/package/words.txt"), 0, True),
    ],
)
def test_only_errors_of_the_program_are_logged_with_a_traceback(
    error, code, has_traceback, tmp_path, monkeypatch, capsys, caplog
):
    def fail(*args):
        raise error

    monkeypatch.setattr("aragorn.rank.RunWriter._rank_and_write", fail)
    command = [*RANK, "-o", str(tmp_path / "out"), "-i", INPUT]
    with caplog.at_level(logging.ERROR):
        if has_traceback:
            with pytest.raises(type(error)):
                aragorn(command)
        else:
            assert aragorn(command) == code
    records = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [bool(record.exc_info) for record in records] == [has_traceback]
    assert str(error) in records[0].getMessage()
