"""Handle the signals of terminals and batch systems, importing only light modules."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,  # the terminal was closed
    signal.SIGQUIT,
    signal.SIGXCPU,  # limit of processor time
    signal.SIGALRM,  # limits and warnings of batch systems
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGIO,
    signal.SIGPWR,  # power failure
)
SIGNAL_EXIT_CODES = {signum: 128 + signum for signum in SIGNALS}  # shell convention
MESSAGE = b"interrupted; run the same command again to resume\n"

_callbacks: list[Callable[[], object]] = []  # run before exiting


def install_handlers() -> None:
    """Install handlers that exit on SIGNALS; connect closed standard streams to the null device."""
    # else the next opened file would get the descriptor of a closed stream and receive messages
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if descriptor == 2 else os.O_RDONLY)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    for signum in SIGNALS:
        if signum != signal.SIGHUP or signal.getsignal(signum) != signal.SIG_IGN:  # else nohup
            signal.signal(signum, _handle_signal)


@contextmanager
def on_interrupt(callback: Callable[[], object]) -> Iterator[None]:
    """Run a callback if a signal ends the process inside this block, as `finally` does not run."""
    _callbacks.append(callback)
    try:
        yield
    finally:
        _callbacks.remove(callback)


def _handle_signal(signum: int, frame: FrameType | None) -> NoReturn:
    # Raise no exception: inside an import or a callback it could be lost or print a traceback.
    with suppress(OSError):
        os.write(2, MESSAGE)
    for callback in _callbacks:
        callback()
    os._exit(SIGNAL_EXIT_CODES[signal.Signals(signum)])
