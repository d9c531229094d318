"""Parse arguments, set up logging and map exceptions to exit codes."""

import argparse
import copy
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from aragorn.errors import SubmissionError, abbreviate, as_memory_errors, escape_unprintable
from aragorn.io.orders import AUTO_ORDER, ORDERS
from aragorn.paths import CHECKPOINT_DIR, SAMPLE_INPUT
from aragorn.progress import configure_logging
from aragorn.standard_streams import handle_stream_errors

T = TypeVar("T")
Handler = Callable[[argparse.Namespace], None]


def run_command(parser: argparse.ArgumentParser, argv: list[str] | None) -> int:
    """Parse `argv` (None: the process's command line), call the subcommand's handler and return the
    exit code."""
    with handle_stream_errors():
        try:
            args = parser.parse_args(argv)
            args.argv = (sys.argv[1:] if argv is None else argv)[1:]
            configure_logging()
            with as_memory_errors():
                args.handler(args)
        except SubmissionError as error:
            print(f"error: {escape_unprintable(str(error))}", file=sys.stderr)
            return error.exit_code
    return 0


class _HelpFormatter(argparse.HelpFormatter):
    """Help formatter that appends defaults and hides the aliases of long options."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text, default = action.help or "", action.default
        is_hidden = (
            default is None
            or default is False
            or default in ([], argparse.SUPPRESS)
            or not action.option_strings
        )
        return text if is_hidden or "(default" in text else f"{text} (default: %(default)s)"

    def _format_action_invocation(self, action: argparse.Action) -> str:
        names = action.option_strings
        long_names = [name for name in names if name.startswith("--")]
        action = copy.copy(action)
        action.option_strings = [name for name in names if name not in long_names[1:]]
        return super()._format_action_invocation(action)


class _Replace(argparse.Action):
    """Action of a repeatable option whose values replace the default."""

    def __call__(
        self, parser: object, namespace: argparse.Namespace, value: Any, option: str | None = None
    ) -> None:
        values = getattr(namespace, self.dest)
        setattr(namespace, self.dest, [value] if values is self.default else [*values, value])


class Commands:
    """Subcommands of an argument parser; `metavar` is their placeholder in usage lines."""

    def __init__(self, parser: argparse.ArgumentParser, metavar: str = "VERB") -> None:
        self.parser = parser
        self._subparsers = parser.add_subparsers(required=True, metavar=metavar)

    def add_group(self, name: str, description: str, metavar: str) -> Self:
        """Add a subcommand that has subcommands; return the `Commands` to which these are added."""
        return type(self)(self._add_parser(name, description), metavar)

    def add(
        self, name: str, handler: Handler, description: str, aliases: Sequence[str] = ()
    ) -> argparse.ArgumentParser:
        """Add a subcommand with its handler and return its parser, to which options can be
        added."""
        parser = self._add_parser(name, description, aliases)
        parser.set_defaults(handler=handler)
        return parser

    def _add_parser(
        self, name: str, description: str, aliases: Sequence[str] = ()
    ) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = self._subparsers.add_parser(
            name, aliases=aliases, help=description, description=description, epilog=self.parser.epilog,
            formatter_class=_HelpFormatter,
        )  # fmt: skip
        return parser


def add_path(
    parser: argparse.ArgumentParser, *names: str, metavar: str = "DIR", **settings: Any
) -> None:
    """Add an option that takes a path; `settings` are further arguments of `add_argument`."""
    parser.add_argument(*names, type=parse_path, metavar=metavar, **settings)


def add_options(parser: argparse.ArgumentParser, *destinations: str) -> None:
    """Add options that several subcommands share; `destinations` are keys of
    `_build_shared_options`."""
    for destination in destinations:
        flags, settings = _build_shared_options()[destination]
        parser.add_argument(*flags.split(), dest=destination, **settings)


def _build_shared_options() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the flags and `add_argument` settings of shared options by destination; read defaults
    from the environment."""
    directory = {"type": parse_path, "metavar": "DIR"}
    default_input = read_path_from_environment(["inputDataset", "TIRA_INPUT_DATASET"], SAMPLE_INPUT)
    default_text = str(default_input).replace("%", "%%")
    input_run = read_path_from_environment(["inputRun"], None)
    return {
        "inputs": ("-i --input", {"type": parse_path, "metavar": "INPUT", "action": _Replace, "default": [default_input],
            "help": "input directory, zip archive or file: topics*.xml and args.me JSON, or a TIREx data set; repeatable, "
            f"e.g. once for topics and once for the corpus (default: {default_text})"}),
        "input_run": ("--input-run", {"type": parse_path, "metavar": "PATH", "default": input_run, "help":
            "TREC run (file, or directory with run.txt) to re-rank, instead of retrieving documents"}),
        "order": ("--order", {"choices": ORDERS, "default": ORDERS[0], "help":
            f"order of documents in supplied rankings; auto: {AUTO_ORDER}"}),
        "checkpoint_dir": ("--checkpoints", directory | {"default": CHECKPOINT_DIR, "help": "checkpoint directory"}),
        "cache_dir": ("--cache-dir --work", directory | {"help":
            "cache for indexes, rankings and scores; an interrupted run resumes from it (default: temporary directory)"}),
        "device": ("--device", {"choices": ["auto", "cpu", "cuda"], "default": "auto", "help":
            "computing device; auto: GPU if available"}),
        "precision": ("--precision", {"choices": ["float32", "bfloat16"], "default": "float32", "help":
            "precision of BERT encoders on CPU; bfloat16 requires AVX-512 BF16 or AMX and changes scores slightly"}),
        "engine": ("--engine", {"choices": ["local", "ray"], "default": "local", "help":
            "execution engine; local: this process; ray: Ray on this machine, or on the cluster at --ray-address"}),
        "ray_address": ("--ray-address", {"type": parse_ray_address, "metavar": "HOST:PORT", "help":
            "with --engine ray: address of the cluster (default: Ray on this machine)"}),
        "shared_cache": ("--shared-cache --shared-work", {"action": "store_true", "help":
            "with --engine ray: use --cache-dir on all nodes, which must mount it at the same path"}),
    }  # fmt: skip


def parse_ray_address(text: str) -> str:
    """Return the address of a Ray cluster unchanged; raise ArgumentTypeError unless it is
    HOST:PORT."""
    if not re.fullmatch(r"[^\s/:]+:[0-9]+", text):
        raise argparse.ArgumentTypeError(f"'{abbreviate(text)}': expected HOST:PORT")
    return text


def parse_path(text: str) -> Path:
    """Parse a path; raise ArgumentTypeError if it has a null character or is empty, as from an
    unset shell variable."""
    if not text.strip() or "\0" in text:
        raise argparse.ArgumentTypeError(
            f"'{abbreviate(text)}': expected a non-empty path without null characters"
        )
    return Path(text)


def integer_between(minimum: int, maximum: int) -> Callable[[str], int]:
    """Return a function that parses an integer from `minimum` to `maximum`, or raises
    ArgumentTypeError for any other text."""

    def parse(text: str) -> int:
        if (
            not text.isdecimal()
            or len(text) > len(str(maximum))
            or not minimum <= int(text) <= maximum
        ):
            raise argparse.ArgumentTypeError(
                f"'{abbreviate(text)}': expected an integer from {minimum} to {maximum}"
            )
        return int(text)

    return parse


def read_path_from_environment(names: list[str], default: T) -> Path | T:
    """Return the path in the first non-empty environment variable of `names` (set by TIRA), or
    `default` if all are empty."""
    return next((Path(os.environ[name]) for name in names if os.environ.get(name)), default)
