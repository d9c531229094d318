import os
import subprocess
import sys
from pathlib import Path

import pytest

from aragorn.__main__ import main as aragorn
from aragorn_training.__main__ import main as training
from tests.conftest import ROOT, SAMPLE

QRELS = SAMPLE.parent / "sample.qrels"
RUN = "1 Q0 S89c1bfbf-A23fa7870 1 2 t\n1 Q0 S89c1bfbf-A3b8410bf 2 1 t\n"
SEARCHES = ("search --system bm25 zoos", "search --json --system bm25 zoos")
PRINTING = ("systems", "--help", *SEARCHES, "evaluate", "tune --help")


def run(command, tmp_path):
    """Run a command in this process; add the missing arguments of `evaluate`."""
    (tmp_path / "run.txt").write_text(RUN)
    evaluate = ["evaluate", "--qrels", str(QRELS), str(tmp_path / "run.txt")]
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
        assert run(command, tmp_path) == 0
    assert (tmp_path / "out").read_text(encoding=encoding)


@pytest.mark.parametrize("is_buffered", [True, False])
@pytest.mark.parametrize("command", PRINTING)
def test_unwritable_output_fails(command, is_buffered, tmp_path, monkeypatch, capsys):
    with Path("/dev/full").open("w") as stream:
        stream.reconfigure(write_through=not is_buffered)  # as PYTHONUNBUFFERED does
        monkeypatch.setattr(sys, "stdout", stream)
        assert run(command, tmp_path) == 5
    message = "error: standard output: cannot be written (No space left on device); redirect it to a writable file"
    assert message in capsys.readouterr().err
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert run(command, tmp_path) == 0


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
