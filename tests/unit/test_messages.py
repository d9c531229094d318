"""Tests of what commands print: messages of one line, escaped characters, full and closed streams."""

import logging
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from aragorn.__main__ import main as aragorn
from aragorn.errors import MAX_MESSAGE_LENGTH, escape_unprintable, format_message
from aragorn.progress import configure_logging
from aragorn_training.__main__ import main as training
from tests.conftest import ROOT, SAMPLE

FORGED = "x\nerror: forged\r\x1b[31m\x07\x85\u2028\u202e\x9b"
ESCAPED = r"x\nerror: forged\r\x1b[31m\x07\x85\u2028\u202e\x9b"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        (FORGED, ESCAPED),
        ("M\xfcller\n\u0645", "M\xfcller\\n\u0645"),  # printable characters stay
        ("M\udcfcller", r"M\udcfcller"),
        ("plain 'text'", "plain 'text'"),
    ],
)
def test_unprintable_characters_are_escaped(text, escaped):
    assert escape_unprintable(text) == escaped


COMMANDS = {
    aragorn: [
        ["rank", "-i", FORGED, "-o", "out"],
        ["rank", "-o", "out", "--system", FORGED],
        ["rank", "-o", "out", f"--{FORGED}"],
        ["search", "--system", "bm25", "-i", FORGED, "zoos"],
        ["explain", "--system", "bm25", "1", FORGED],
        ["check", "-i", FORGED, "--no-checkpoints"],
        [FORGED],
    ],
    training: [
        ["fit", FORGED],
        ["tune", f"{FORGED}.toml"],
        ["evaluate", "--qrels", FORGED, "run.txt"],
        ["report", FORGED],
        [FORGED],
    ],
}


@pytest.mark.parametrize(
    ("main", "command"), [(main, words) for main in COMMANDS for words in COMMANDS[main]]
)
def test_names_forge_no_message(main, command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(command)
    except SystemExit as error:
        code = error.code
    captured = capsys.readouterr()
    lines = (captured.out + captured.err).split("\n")
    assert all(line.isprintable() for line in lines), captured
    assert not any(line.startswith("error: forged") for line in lines)
    assert code in (2, 3, 4)
    assert sum("error: " in line for line in captured.err.split("\n")) <= 1


def test_a_logged_message_is_one_line(monkeypatch):
    stream = StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    configure_logging()
    logging.getLogger().warning("%s", FORGED)
    try:
        raise ValueError(FORGED)
    except ValueError:
        logging.getLogger().exception("failed")
    lines = stream.getvalue().split("\n")
    assert lines[0].endswith(f" {ESCAPED}")
    assert lines[1].endswith(" failed")
    assert lines[2].startswith("Traceback")
    assert all(line.isprintable() for line in lines)


def test_a_long_message_keeps_its_cause_and_its_fix():
    message = f"file: malformed ({'x' * 10**5}\n); correct it"
    line = format_message(message)
    assert (line[:17], line[-16:]) == ("file: malformed (", r"x\n); correct it"[-16:])
    assert len(line) == MAX_MESSAGE_LENGTH + 3
    assert format_message("a\x1b\nb") == r"a\x1b\nb"


QRELS = SAMPLE.parent / "sample.qrels"
RUN = "1 Q0 S89c1bfbf-A23fa7870 1 2 t\n1 Q0 S89c1bfbf-A3b8410bf 2 1 t\n"
SEARCHES = ("search --system bm25 zoos", "search --json --system bm25 zoos")
PRINTING = ("systems", "--help", *SEARCHES, "evaluate", "tune --help")


def run_printing(command, tmp_path):
    """Run a command in this process; add the missing arguments of `evaluate`."""
    (tmp_path / "run_printing.txt").write_text(RUN)
    evaluate = ["evaluate", "--qrels", str(QRELS), str(tmp_path / "run_printing.txt")]
    arguments = evaluate if command == "evaluate" else command.split()
    try:
        return (training if command.startswith(("evaluate", "tune")) else aragorn)(arguments)
    except SystemExit as error:  # from argparse, or a closed pipe
        return int(str(error.code))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("command", PRINTING)
def test_unencodable_characters_are_replaced(command, encoding, tmp_path, monkeypatch):
    with (tmp_path / "out").open("w", encoding=encoding) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert run_printing(command, tmp_path) == 0
    assert (tmp_path / "out").read_text(encoding=encoding)


@pytest.mark.parametrize("is_buffered", [True, False])
@pytest.mark.parametrize("command", PRINTING)
def test_unwritable_output_fails(command, is_buffered, tmp_path, monkeypatch, capsys):
    with Path("/dev/full").open("w") as stream:
        stream.reconfigure(write_through=not is_buffered)  # as PYTHONUNBUFFERED does
        monkeypatch.setattr(sys, "stdout", stream)
        assert run_printing(command, tmp_path) == 5
    message = "error: standard output: cannot be written (No space left on device); redirect it to a writable file"
    assert message in capsys.readouterr().err
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert run_printing(command, tmp_path) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "redirection", "code"), [
    ("search --system bm25", "<&-", 0), ("search --system bm25", "0>/dev/null", 3),
    ("systems", ">&-", 5), ("systems", "2>/dev/full", 0), ("search --system x", "2>/dev/full", 2), ("rank --x", "2>&-", 2),
])  # fmt: skip
def test_closed_and_full_streams(arguments, redirection, code):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    shell = ["sh", "-c", f"exec {sys.executable} -m aragorn {arguments} {redirection}"]
    process = subprocess.run(
        shell, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=environment, check=False
    )
    assert (process.returncode, "Traceback" in process.stderr) == (code, False), process.stderr
