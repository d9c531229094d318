"""Parse arguments, set up logging and standard streams, and map exceptions to exit codes."""

import argparse
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, Self, TextIO

from aragorn.errors import (
    CheckpointError,
    InputError,
    OutputError,
    SubmissionError,
    as_system_errors,
    format_message,
)
from aragorn.options import add_arguments, build_options
from aragorn.progress import configure_logging, pause_gc

Handler = Callable[[argparse.Namespace], None]
DIRECTORIES = {  # options of directories, and the exception if one cannot be used
    "cache_dir": OutputError,
    "output_dir": OutputError,
    "output": OutputError,
    "work_dir": OutputError,
    "checkpoint_dir": CheckpointError,
}


class ArgumentParser(argparse.ArgumentParser):
    """Parser whose error messages are one line."""

    def error(self, message: str) -> NoReturn:
        super().error(format_message(message))


def run_command(parser: argparse.ArgumentParser, argv: list[str] | None) -> int:
    """Parse `argv` (None: the command line), call the verb's function, return the exit code."""
    with handle_stream_errors():
        try:
            args = argparse.Namespace()
            with as_system_errors(_iter_paths(args)):
                parser.parse_args(argv, args)
                args.argv = (sys.argv[1:] if argv is None else argv)[1:]
                configure_logging(args.quiet)
                args.handler(args)
        except SubmissionError as error:
            print(f"error: {format_message(str(error))}", file=sys.stderr)
            return error.exit_code
    return 0


def _iter_paths(args: argparse.Namespace) -> Iterator[tuple[Path, type[SubmissionError]]]:
    """Yield the paths that the user named, with the exception if one cannot be used."""
    for name in sorted(vars(args), key=lambda name: name not in DIRECTORIES):
        value = getattr(args, name)
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, Path):
                yield item, DIRECTORIES.get(name, InputError)
    if tempfile.tempdir:
        yield Path(tempfile.tempdir), OutputError


class _HelpFormatter(argparse.HelpFormatter):
    """Help formatter that appends defaults."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        default = action.default
        if "(default" in text or not action.option_strings:
            return text
        if default in (None, False, argparse.SUPPRESS):
            return text
        return f"{text} (default: {str(default).replace('%', '%%')})"


def add_commands(parent: "Commands", commands: Mapping[str, tuple[str, type[Any]]]) -> None:
    """Add verbs, given as `module:name` of a function of options, and the type of these."""
    for name, (function, options) in commands.items():
        text = (options.__doc__ or "").rstrip(".")
        parser = parent.add(name, partial(_execute, function, options), text[:1].lower() + text[1:])
        add_arguments(parser, options)


def _execute(path: str, options: type[Any], args: argparse.Namespace) -> None:
    module, _, name = path.partition(":")
    with pause_gc(freeze=True):
        function = getattr(import_module(module), name)
    function(build_options(options, args))


class Commands:
    """Subcommands of an argument parser; `metavar` is their placeholder in usage lines."""

    def __init__(self, parser: ArgumentParser, metavar: str = "VERB") -> None:
        self.parser = parser
        self._subparsers = parser.add_subparsers(required=True, metavar=metavar)

    def add_group(self, name: str, description: str, metavar: str) -> Self:
        """Add a subcommand that has subcommands; return the `Commands` to which these are added."""
        return type(self)(self._add_parser(name, description), metavar)

    def add(self, name: str, handler: Handler, description: str) -> argparse.ArgumentParser:
        parser = self._add_parser(name, description)
        parser.set_defaults(handler=handler)
        help = "log warnings and errors only"
        parser.add_argument("--quiet", action="store_true", help=help)
        return parser

    def _add_parser(self, name: str, description: str) -> ArgumentParser:
        parser: ArgumentParser = self._subparsers.add_parser(
            name,
            help=description,
            description=description,
            epilog=self.parser.epilog,
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
        )
        return parser


@contextmanager
def handle_stream_errors() -> Iterator[None]:
    """Handle errors of stdin, stdout and stderr; replace undecodable and unencodable characters."""
    for stream in (sys.stdin, sys.stdout):  # stderr escapes such characters by default
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    streams: tuple[Any, Any] = (
        _CheckedStream(sys.stdout, is_required=True),
        _CheckedStream(sys.stderr, is_required=False),
    )
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        yield


class _CheckedStream:
    """Unbuffered text stream that, if writing fails, is connected to the null device."""

    def __init__(self, stream: TextIO, is_required: bool) -> None:
        self._stream = stream
        self._is_required = is_required

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        """Write and flush; on failure, a required stream raises OutputError or SystemExit."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            # Python would report the error again when it flushes the stream at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            if not self._is_required:
                return
            if isinstance(error, BrokenPipeError):  # e.g. `| head`
                raise SystemExit(0) from None
            cause = f"standard output: cannot be written ({error.strerror})"
            raise OutputError(f"{cause}; redirect it to a writable file") from None
