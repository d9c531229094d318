"""Handle SIGINT and SIGTERM; imports no heavy modules."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

CODES = {signal.SIGINT: 128 + signal.SIGINT, signal.SIGTERM: 128 + signal.SIGTERM}  # shell convention
WORDS = b"interrupted; run the same command again to resume\n"

_before: list[Callable[[], object]] = []  # run before exiting


def hear() -> None:
    """Install signal handlers and reopen closed standard streams."""
    for descriptor in range(3):  # the next opened file would get the descriptor of a closed stream, and messages with it
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout, sys.stderr = sys.stdout or os.fdopen(1, "w"), sys.stderr or os.fdopen(2, "w")
    for signum in CODES:
        signal.signal(signum, _stop)


@contextmanager
def when_stopped(do: Callable[[], object]) -> Iterator[None]:
    """Run a callback if a signal ends the process inside this block; no other cleanup runs."""
    _before.append(do)
    try:
        yield
    finally:
        _before.remove(do)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    # No exception: inside an import or a callback it could be lost or print a traceback.
    with suppress(OSError):
        os.write(2, WORDS)
    for callback in _before:
        callback()
    os._exit(CODES[signal.Signals(number)])
