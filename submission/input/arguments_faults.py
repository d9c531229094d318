"""Describe the errors of an args.me JSON file, per argument as far as it is JSON."""

from __future__ import annotations

from pathlib import Path

import msgspec

from submission.errors import short
from submission.input.arguments_lines import JSON_SCHEMA, id_suffix
from submission.input.json_places import (
    NO_CONSTANTS,
    Broken,
    Constant,
    Data,
    Steps,
    dotted,
    line_and_column,
    not_utf8,
    survey,
)

FIRST = 1 << 24  # bytes searched for the end of the first line


class RawCorpus(msgspec.Struct, gc=False):
    """Corpus file with undecoded arguments."""

    arguments: list[msgspec.Raw]


def recover_arguments(file: Path, data: Data, error: Exception) -> tuple[list[str], list[tuple[int, msgspec.Raw]]]:
    """Find the errors of a file that cannot be split into arguments.

    Args:
        file: Corpus file, for messages.
        data: Its bytes.
        error: Exception of decoding it as a RawCorpus.

    Returns:
        At least one message, and the arguments that can be decoded nevertheless, with their 1-based numbers.
    """
    if isinstance(error, msgspec.ValidationError):
        return [f"{file}: {short(str(error), 200)}; {JSON_SCHEMA}{_jsonl_hint(data)}"], []
    scan = survey(data)
    arguments: list[msgspec.Raw] = []
    if not scan.broken and scan.constants:
        try:
            arguments = msgspec.json.decode(scan.text, type=RawCorpus).arguments
        except msgspec.ValidationError:
            arguments = []
    issues = _describe_constants(file, scan.constants, arguments)
    if (scan.broken or isinstance(error, UnicodeDecodeError)) and (syntax_error := not_utf8(data) or scan.broken):
        issues.append(describe_syntax_error(file, data, syntax_error))
    with_constants = {_argument_number(constant.steps) for constant in scan.constants}
    rest = [(number, raw) for number, raw in enumerate(arguments, 1) if number not in with_constants]
    return issues or [f"{file}: {short(str(error), 200)}; {JSON_SCHEMA}"], rest


def describe_syntax_error(file: Path, data: Data, error: Broken) -> str:
    """Describe a position that is not JSON or not UTF-8, by argument, line and column."""
    number = _argument_number(error.steps)
    location = f"{file}, argument {number}" if number else str(file)
    position = line_and_column(data, error.byte)
    return f"{location}, {position}: malformed JSON ({error.reason}); {JSON_SCHEMA}; copy the file again"


def _describe_constants(file: Path, constants: list[Constant], arguments: list[msgspec.Raw]) -> list[str]:
    """Describe NaN and Infinity values, with the ids of their arguments if known."""
    issues = []
    for constant in constants:
        number, location, path = _argument_number(constant.steps), str(file), constant.steps
        if number:
            suffix = id_suffix(arguments[number - 1]) if arguments else ""
            location, path = f"{file}, argument {number}{suffix}", path[2:]
        issues.append(f"{location}: {dotted(path)} is {constant.name}; {NO_CONSTANTS}")
    return issues


def _jsonl_hint(data: Data) -> str:
    """Return a hint if the first line is an argument; else ""."""
    first_line = bytes(data[:FIRST]).partition(b"\n")[0]
    return "; files with one argument per line must be named .jsonl" if id_suffix(first_line) else ""


def _argument_number(path: Steps) -> int:
    """Return the 1-based number of the argument that a path leads into; 0 if none."""
    match path:
        case ["arguments", int(index), *_]:
            return index + 1
    return 0
