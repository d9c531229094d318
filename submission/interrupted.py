"""Handle Ctrl-C and SIGTERM from the first moment of a process on; this module imports next to nothing."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

CODES = {signal.SIGINT: 128 + signal.SIGINT, signal.SIGTERM: 128 + signal.SIGTERM}  # exit codes, as shells give them
WORDS = b"interrupted; finished parts are kept, rerun the command to resume\n"

_before: list[Callable[[], object]] = []  # callbacks to run then


def hear() -> None:
    """Install the signal handlers, and reopen standard streams that are closed."""
    for number in range(3):  # else a file that is opened would take a stream's place, and get what is said to people
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout, sys.stderr = sys.stdout or os.fdopen(1, "w"), sys.stderr or os.fdopen(2, "w")
    for signal_number in CODES:
        signal.signal(signal_number, _stop)


@contextmanager
def when_stopped(do: Callable[[], object]) -> Iterator[None]:
    """Run a callback if the process is stopped inside this block; no other cleanup runs then."""
    _before.append(do)
    try:
        yield
    finally:
        _before.remove(do)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    # No exception: raised at any moment, within an import or a callback, it could be lost or end in a traceback.
    with suppress(OSError):
        os.write(2, WORDS)
    for do in _before:
        do()
    os._exit(CODES[signal.Signals(number)])
