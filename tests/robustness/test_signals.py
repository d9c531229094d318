"""Tests of signals at any time and of closed standard streams: one-line messages, documented exit codes and complete runs."""

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

DELAYS = (0.0, 0.05, 0.15, 0.4, 0.9, 1.6)  # seconds until the signal: during startup, the import of torch, or ranking
SYSTEMS = ("--system", "bm25", "--system", "knrm")
STARTUP_SECONDS = 0.3  # before this, signal handlers may not be installed


def command(program: Program) -> list[str]:
    paths = ["-i", program.input, "-o", program.output, "--cache-dir", program.work, "--checkpoints", program.checkpoints]
    return [sys.executable, "-m", "submission", "rank", *map(str, paths), "--device", "cpu", *SYSTEMS]


@pytest.fixture(autouse=True)
def default_signal_handlers() -> Iterator[None]:
    """Reset signal handlers, since children of a background job in a shell ignore SIGINT."""
    handlers = {signum: signal.signal(signum, signal.default_int_handler) for signum in SIGNAL_EXIT_CODES}
    yield
    for signum, handler in handlers.items():
        signal.signal(signum, handler)


@pytest.mark.parametrize("signum", SIGNAL_EXIT_CODES, ids=lambda signum: signum.name)
@pytest.mark.parametrize("delay", DELAYS)
def test_signal_exits_cleanly_at_any_time(program: Program, signum: signal.Signals, delay: float) -> None:
    process = subprocess.Popen(command(program), cwd=ROOT, stderr=subprocess.PIPE)
    time.sleep(delay)
    process.send_signal(signum)
    text = process.communicate(timeout=30)[1].decode()
    assert "Traceback" not in text or delay < STARTUP_SECONDS, text
    assert (
        process.returncode in {SIGNAL_EXIT_CODES[signum], -signum}
        if delay < STARTUP_SECONDS
        else {SIGNAL_EXIT_CODES[signum], 0}
    ), text
    if process.returncode == SIGNAL_EXIT_CODES[signum]:
        assert text.splitlines()[-1:] == [MESSAGE.decode().strip()]
    for run in program.output.glob("aragorn-*.txt"):  # complete
        assert len(run.read_text().splitlines()) >= 3
    assert not list(program.output.glob(".*.part"))
    assert program.rank("--cache-dir", str(program.work), systems=("bm25", "knrm"))[0] == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full", ">/dev/full 2>/dev/full"])
def test_rank_runs_without_standard_streams(program: Program, closed: str) -> None:
    done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *command(program)], cwd=ROOT, check=False)
    assert done.returncode == 0
    runs = {name: (program.output / f"aragorn-{name}.txt").read_bytes() for name in ("bm25", "knrm")}
    assert program.rank("--overwrite", systems=("bm25", "knrm"))[0] == 0
    assert runs == {name: (program.output / f"aragorn-{name}.txt").read_bytes() for name in ("bm25", "knrm")}


def test_check_survives_a_closed_pipe(program: Program) -> None:
    check = [sys.executable, "-m", "submission", "check", "-i", str(program.input), "--checkpoints", str(program.checkpoints)]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(check, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr
