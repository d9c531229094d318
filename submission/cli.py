"""Parse arguments, set up logging and map exceptions to exit codes."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from submission.data.ranking_order import ORDERS, RULE
from submission.errors import EXIT_CODE_HELP, SubmissionError, abbreviate, escape_unprintable
from submission.logging_setup import configure_logging
from submission.paths import CHECKPOINT_DIR, SAMPLE_INPUT

T = TypeVar("T")


def run_command(parser: argparse.ArgumentParser, arguments: list[str] | None) -> int:
    """Parse the arguments, call the command's handler and return the exit code."""
    options = parser.parse_args(arguments)
    options.argv = (sys.argv[1:] if arguments is None else arguments)[1:]
    configure_logging()
    try:
        options.handler(options)
        sys.stdout.flush()
    except SubmissionError as error:
        print(f"error: {escape_unprintable(str(error))}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of stdout (e.g. head) has closed it: redirect it, else Python reports an error at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


class _HelpFormatter(argparse.HelpFormatter):
    """Help formatter that appends defaults."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        default = action.default
        hide_default = default is None or default is False or default in ([], argparse.SUPPRESS) or not action.option_strings
        return text if hide_default or "(default" in text else f"{text} (default: %(default)s)"


class Commands:
    """Parser with subcommands."""

    def __init__(self, parser: argparse.ArgumentParser, metavar: str = "VERB") -> None:
        """Add subparsers to a parser."""
        self.parser = parser
        self._subparsers = parser.add_subparsers(required=True, metavar=metavar)

    @classmethod
    def of(cls, name: str, description: str) -> Commands:
        """Create the parser of a program."""
        return cls(argparse.ArgumentParser(prog=name, description=description, epilog=EXIT_CODE_HELP))

    def group(self, name: str, what: str, metavar: str) -> Commands:
        """Add a command that has subcommands."""
        return Commands(self._subparsers.add_parser(name, help=what, description=what, epilog=EXIT_CODE_HELP), metavar)

    def add(self, name: str, run: Callable[[argparse.Namespace], None], what: str) -> argparse.ArgumentParser:
        """Add a command with its handler and return its parser."""
        parser: argparse.ArgumentParser = self._subparsers.add_parser(
            name, help=what, description=what, epilog=EXIT_CODE_HELP, formatter_class=_HelpFormatter
        )
        parser.set_defaults(handler=run)
        return parser


def add_input(verb: argparse.ArgumentParser) -> None:
    """Add the option --input."""
    default = path_from_environment(["inputDataset", "TIRA_INPUT_DATASET"], SAMPLE_INPUT)
    help_text = "input directory: topics*.xml and args.me JSON, or a TIREx data set"
    verb.add_argument("-i", "--input", dest="input_dir", type=path_argument, default=default, metavar="DIR", help=help_text)


def add_input_run(verb: argparse.ArgumentParser) -> None:
    """Add the option --input-run."""
    default = path_from_environment(["inputRun"], None)
    help_text = "re-rank the documents of this TREC run (file, or directory with run.txt) instead of retrieving"
    verb.add_argument("--input-run", type=path_argument, default=default, metavar="PATH", help=help_text)
    add_order(verb)


def add_order(verb: argparse.ArgumentParser) -> None:
    """Add the option --order."""
    help_text = f"order of documents in supplied rankings; auto: {RULE}"
    verb.add_argument("--order", choices=ORDERS, default=ORDERS[0], help=help_text)


def add_checkpoints(verb: argparse.ArgumentParser) -> None:
    """Add the option --checkpoints."""
    verb.add_argument(
        "--checkpoints",
        dest="checkpoint_dir",
        type=path_argument,
        default=CHECKPOINT_DIR,
        metavar="DIR",
        help="checkpoint directory",
    )


def add_device(verb: argparse.ArgumentParser) -> None:
    """Add the option --device."""
    help_text = "computing device; auto: GPU if available"
    verb.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help=help_text)


def add_precision(verb: argparse.ArgumentParser) -> None:
    """Add the option --precision."""
    help_text = "arithmetic of BERT encoders on CPU; bfloat16 needs AVX-512 BF16 or AMX and changes scores slightly"
    verb.add_argument("--precision", choices=["float32", "bfloat16"], default="float32", help=help_text)


def add_processes(verb: argparse.ArgumentParser) -> None:
    """Add the option --processes."""
    help_text = "number of networks trained in parallel, one thread each (default: number of cores; 1 on a GPU)"
    verb.add_argument("--processes", type=integer_between(1, 1024), metavar="N", help=help_text)


def add_cache_dir(verb: argparse.ArgumentParser) -> None:
    """Add the option --work of a command that reads the cache of `rank`."""
    help_text = "reuse the cache of rank (default: temporary directory)"
    verb.add_argument("--work", dest="cache_dir", type=path_argument, metavar="DIR", help=help_text)


def add_engine(verb: argparse.ArgumentParser) -> None:
    """Add the option --engine."""
    help_text = "ray: Ray on this machine; ray://HOST:PORT: Ray on that cluster (default: this process)"
    verb.add_argument("--engine", type=ray_address, metavar="ray[://HOST:PORT]", help=help_text)
    help_text = "with Ray: all nodes mount the --work directory at the same path"
    verb.add_argument("--shared-work", dest="shared_cache", action="store_true", help=help_text)


def ray_address(text: str) -> str:
    """Parse the name of an engine: `ray` or `ray://HOST:PORT`."""
    if not re.fullmatch(r"ray(://[^\s/:]+:[0-9]+)?", text):
        raise argparse.ArgumentTypeError(f"'{abbreviate(text)}': expected ray or ray://HOST:PORT")
    return text


def path_argument(text: str) -> Path:
    """Parse a path; reject an empty one (unset variable)."""
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError(f"'{abbreviate(text)}': expected a non-empty path")
    return Path(text)


def integer_between(minimum: int, maximum: int) -> Callable[[str], int]:
    """Return a parser for integers from `minimum` to `maximum`."""

    def parse(text: str) -> int:
        if not text.isdecimal() or len(text) > len(str(maximum)) or not minimum <= int(text) <= maximum:
            raise argparse.ArgumentTypeError(f"'{abbreviate(text)}': expected an integer from {minimum} to {maximum}")
        return int(text)

    return parse


def path_from_environment(names: list[str], default: T) -> Path | T:
    """Return the path in the first environment variable that is set (TIRA), else the default."""
    return next((Path(os.environ[name]) for name in names if os.environ.get(name)), default)
