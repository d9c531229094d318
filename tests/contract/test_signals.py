"""Tests that an interruption leaves complete runs, a usable cache and a message."""

import signal
import subprocess
import sys
import time

import pytest

from aragorn.signals import MESSAGE, SIGNAL_EXIT_CODES
from tests.conftest import ROOT, argv
from tests.contract.input_files import touche, write_files

pytestmark = pytest.mark.slow
# seconds until the signal: during startup, the import of torch, or ranking
DELAYS = (0.0, 0.4, 1.6)
STARTUP_SECONDS = 0.3  # before this, signal handlers may not be installed


@pytest.fixture
def command(tmp_path, tiny_models):
    """Return a `rank` command that ranks a small input with bm25 and knrm, with a cache."""
    source = write_files(tmp_path / "input", touche())
    paths = argv("-i", source, "-o", tmp_path / "out", "--cache-dir", tmp_path / "cache")
    paths += argv("--checkpoints", tiny_models)
    return ["rank", *map(str, paths), "--device", "cpu", "--system", "bm25", "--system", "knrm"]


@pytest.fixture(autouse=True)
def default_signal_handlers():
    """Install Python's default handlers of the tested signals.

    A background job ignores SIGINT, and child processes would inherit that.
    """
    handlers = {
        signum: signal.signal(signum, signal.default_int_handler) for signum in SIGNAL_EXIT_CODES
    }
    yield
    for signum, handler in handlers.items():
        signal.signal(signum, handler)


# one handler serves all but SIGKILL
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("delay", DELAYS)
def test_signal_exits_cleanly_at_any_time(command, tmp_path, call, signum, delay):
    process = subprocess.Popen(
        [sys.executable, "-m", "aragorn", *command], cwd=ROOT, stderr=subprocess.PIPE
    )
    time.sleep(delay)
    process.send_signal(signum)
    text = process.communicate(timeout=60)[1].decode()
    code = SIGNAL_EXIT_CODES.get(signum, -signum)
    assert "Traceback" not in text or delay < STARTUP_SECONDS, text
    expected = {code, -signum} if delay < STARTUP_SECONDS else {code, 0}
    if "runs in" in text:  # Python removes the handlers when it exits
        expected |= {-signum}
    assert process.returncode in expected, text
    if process.returncode == code != -signal.SIGKILL:
        assert text.splitlines()[-1:] == [MESSAGE.decode().strip()]
    for run in (tmp_path / "out").glob("aragorn-*.txt"):  # complete
        assert len(run.read_text().splitlines()) >= 2
    assert signum == signal.SIGKILL or not list((tmp_path / "out").glob(".*.part"))
    assert call(*command)[0] == 0
