"""A process that is told to stop at any moment, or has no streams: one line at most, a documented exit code, whole runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from submission.signals import MESSAGE, SIGNAL_EXIT_CODES
from tests.conftest import ROOT
from tests.robustness.harness import Program

MOMENTS = (0.0, 0.05, 0.15, 0.4, 0.9, 1.6)  # seconds after the start: in Python's own, in torch's import, in the work
SYSTEMS = ("--system", "bm25", "--system", "knrm")
FIRST = 0.3  # before that Python itself may not yet hear


def command(program: Program) -> list[str]:
    places = ["-i", program.input, "-o", program.output, "--work", program.work, "--checkpoints", program.checkpoints]
    return [sys.executable, "-m", "submission", "rank", *map(str, places), "--device", "cpu", *SYSTEMS]


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """What a shell's background jobs ignore, children would ignore too until they begin to hear."""
    before = {how: signal.signal(how, signal.default_int_handler) for how in SIGNAL_EXIT_CODES}
    yield
    for how, handler in before.items():
        signal.signal(how, handler)


@pytest.mark.parametrize("how", SIGNAL_EXIT_CODES, ids=lambda how: how.name)
@pytest.mark.parametrize("moment", MOMENTS)
def test_stopped_from_the_first_moment_on(program: Program, how: signal.Signals, moment: float) -> None:
    process = subprocess.Popen(command(program), cwd=ROOT, stderr=subprocess.PIPE)
    time.sleep(moment)
    process.send_signal(how)
    said = process.communicate(timeout=30)[1].decode()
    assert "Traceback" not in said or moment < FIRST, said
    assert process.returncode in {SIGNAL_EXIT_CODES[how], -how} if moment < FIRST else {SIGNAL_EXIT_CODES[how], 0}, said
    if process.returncode == SIGNAL_EXIT_CODES[how]:
        assert said.splitlines()[-1:] == [MESSAGE.decode().strip()]
    for run in program.output.glob("aragorn-*.txt"):  # whole
        assert len(run.read_text().splitlines()) >= 3
    assert not list(program.output.glob(".*.part"))
    assert program.rank("--work", str(program.work), systems=("bm25", "knrm"))[0] == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full", ">/dev/full 2>/dev/full"])
def test_without_streams(program: Program, closed: str) -> None:
    done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *command(program)], cwd=ROOT, check=False)
    assert done.returncode == 0
    written = {name: (program.output / f"aragorn-{name}.txt").read_bytes() for name in ("bm25", "knrm")}
    assert program.rank("--overwrite", systems=("bm25", "knrm"))[0] == 0
    assert written == {name: (program.output / f"aragorn-{name}.txt").read_bytes() for name in ("bm25", "knrm")}


def test_a_reader_that_goes_away(program: Program) -> None:
    check = [sys.executable, "-m", "submission", "check", "-i", str(program.input), "--checkpoints", str(program.checkpoints)]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(check, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr
