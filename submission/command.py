"""What every command line of the project does with a verb: log to stderr, turn errors into exit codes."""

from __future__ import annotations

import argparse
import logging
import os
import sys

from submission.errors import SubmissionError


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
