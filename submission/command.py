"""What every command line of the project does with a verb: log to stderr, turn errors into exit codes."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeVar

from submission.errors import SubmissionError
from submission.paths import CHECKPOINTS, SAMPLE

T = TypeVar("T")

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


def add_input(verb: argparse.ArgumentParser) -> None:
    """The flag --input."""
    default = from_environment(["inputDataset", "TIRA_INPUT_DATASET"], SAMPLE)
    what = "directory with topics*.xml and the args.me corpus, or a data set in TIREx's form"
    verb.add_argument("-i", "--input", type=Path, default=default, metavar="DIR", help=what)


def add_input_run(verb: argparse.ArgumentParser) -> None:
    """The flag --input-run."""
    default = from_environment(["inputRun"], None)
    what = "a run (run.txt), or the directory that holds it, whose documents are re-ranked instead of BM25's"
    verb.add_argument("--input-run", type=Path, default=default, metavar="DIR", help=what)


def add_checkpoints(verb: argparse.ArgumentParser) -> None:
    """The flag --checkpoints."""
    verb.add_argument("--checkpoints", type=Path, default=CHECKPOINTS, metavar="DIR", help="where the checkpoints are")


def from_environment(names: list[str], default: T) -> Path | T:
    """A path that TIRA hands over in one of these variables."""
    return next((Path(os.environ[name]) for name in names if os.environ.get(name)), default)
