"""What every command line of the project does with a verb: log to stderr, turn errors into exit codes."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from submission.errors import SubmissionError

TERMINATED = 128 + signal.SIGTERM  # the exit code that shells give it


def program(main: Callable[[], int]) -> NoReturn:
    """Be the process of a command line: end with its exit code, and in order when asked to (a container that is stopped)."""
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(main())


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    # Without this the first process of a container would not hear it, and temporary files would stay behind.
    print("terminated; what is finished stays, the same command goes on from there", file=sys.stderr)
    sys.exit(TERMINATED)


def run(parser: argparse.ArgumentParser, arguments: list[str] | None) -> int:
    """Parse the arguments, call the function in `verb` with them, and return the exit code."""
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    try:
        options.verb(options)
        sys.stdout.flush()
    except SubmissionError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our table has gone: point stdout elsewhere, or Python complains at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
