"""Run a verb of a command line: log to stderr, turn errors into exit codes."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from submission.errors import EXIT_CODES, SubmissionError, short, shown
from submission.input.order import ORDERS, RULE
from submission.logs import log_to_stderr
from submission.paths import CHECKPOINTS, SAMPLE

T = TypeVar("T")


def run(parser: argparse.ArgumentParser, arguments: list[str] | None) -> int:
    """Parse the arguments, call the function in `verb` with them; the exit code."""
    options = parser.parse_args(arguments)
    options.called = (sys.argv[1:] if arguments is None else arguments)[1:]
    log_to_stderr()
    try:
        options.verb(options)
        sys.stdout.flush()
    except SubmissionError as error:
        print(f"error: {shown(str(error))}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our table has gone: point stdout elsewhere, or Python complains at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


class _Help(argparse.HelpFormatter):
    """Says a flag's default where there is one to say."""

    def _get_help_string(self, action: argparse.Action) -> str:
        words = action.help or ""
        silent = action.default in (None, False, [], argparse.SUPPRESS) or not action.option_strings
        return words if silent else f"{words} (default: %(default)s)"


class Verbs:
    """A command line of verbs, or a verb of several kinds."""

    def __init__(self, parser: argparse.ArgumentParser, metavar: str = "VERB") -> None:
        """Let a parser read the name of a verb, or of a kind, first."""
        self.parser = parser
        self._verbs = parser.add_subparsers(required=True, metavar=metavar)

    @classmethod
    def of(cls, name: str, about: str) -> Verbs:
        """Create the command line of a program."""
        return cls(argparse.ArgumentParser(prog=name, description=about, epilog=EXIT_CODES))

    def group(self, name: str, what: str, metavar: str) -> Verbs:
        """Add a verb of several kinds, each with flags of its own."""
        return Verbs(self._verbs.add_parser(name, help=what, description=what, epilog=EXIT_CODES), metavar)

    def add(self, name: str, run: Callable[[argparse.Namespace], None], what: str) -> argparse.ArgumentParser:
        """A verb, to which flags are added; `run` gets them."""
        verb: argparse.ArgumentParser = self._verbs.add_parser(
            name, help=what, description=what, epilog=EXIT_CODES, formatter_class=_Help
        )
        verb.set_defaults(verb=run)
        return verb


def add_input(verb: argparse.ArgumentParser) -> None:
    """Add the flag --input."""
    default = from_environment(["inputDataset", "TIRA_INPUT_DATASET"], SAMPLE)
    what = "directory with topics*.xml and the args.me corpus, or a data set in TIREx's form"
    verb.add_argument("-i", "--input", type=folder, default=default, metavar="DIR", help=what)


def add_input_run(verb: argparse.ArgumentParser) -> None:
    """Add the flag --input-run."""
    default = from_environment(["inputRun"], None)
    what = "a run (run.txt), or the directory that holds it, of whose documents every system ranks exactly these"
    verb.add_argument("--input-run", type=folder, default=default, metavar="DIR", help=what)
    add_order(verb)


def add_order(verb: argparse.ArgumentParser) -> None:
    """Add the flag --order."""
    what = f"how runs and lists order a topic's documents; auto: {RULE}"
    verb.add_argument("--order", choices=ORDERS, default=ORDERS[0], help=what)


def add_checkpoints(verb: argparse.ArgumentParser) -> None:
    """Add the flag --checkpoints."""
    verb.add_argument("--checkpoints", type=folder, default=CHECKPOINTS, metavar="DIR", help="where the checkpoints are")


def add_device(verb: argparse.ArgumentParser) -> None:
    """Add the flag --device."""
    verb.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: the GPU if there is one")


def add_precision(verb: argparse.ArgumentParser) -> None:
    """Add the flag --precision."""
    what = "of pretrained encoders on a CPU; bfloat16 is faster where the processor has it (AVX-512 BF16, AMX), with other runs"
    verb.add_argument("--precision", choices=["float32", "bfloat16"], default="float32", help=what)


def add_processes(verb: argparse.ArgumentParser) -> None:
    """Add the flag --processes."""
    what = "networks that are trained at a time, each on one thread (default: on a CPU as many as it has cores)"
    verb.add_argument("--processes", type=whole_number(1, 1024), metavar="N", help=what)


def add_work(verb: argparse.ArgumentParser) -> None:
    """The flag --work of a verb that uses what `rank` kept."""
    what = "what `rank --work` kept there is used (default: a temporary directory)"
    verb.add_argument("--work", type=folder, metavar="DIR", help=what)


def add_engine(verb: argparse.ArgumentParser) -> None:
    """Add the flag --engine."""
    what = "where parts are computed: ray, on this machine, or ray://HOST:PORT, on a cluster (default: in this process)"
    verb.add_argument("--engine", type=engine, metavar="ray[://HOST:PORT]", help=what)
    what = "with --engine: all nodes have --work DIR at the same place, and its workers read and write there themselves"
    verb.add_argument("--shared-work", action="store_true", help=what)


def engine(text: str) -> str:
    """Ray, on this machine or at an address."""
    if not re.fullmatch(r"ray(://[^\s/:]+:[0-9]+)?", text):
        raise argparse.ArgumentTypeError(f"'{short(text)}': expected ray or ray://HOST:PORT")
    return text


def folder(text: str) -> Path:
    """A path of a flag. An empty one is no current directory: it is a variable that was not set."""
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError(f"'{short(text)}': expected a path")
    return Path(text)


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return a parser of whole numbers within bounds."""

    def number(text: str) -> int:
        if not text.isdecimal() or len(text) > len(str(most)) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{short(text)}': expected a whole number from {least} to {most}")
        return int(text)

    return number


def from_environment(names: list[str], default: T) -> Path | T:
    """A path that TIRA hands over in one of these variables."""
    return next((Path(os.environ[name]) for name in names if os.environ.get(name)), default)
