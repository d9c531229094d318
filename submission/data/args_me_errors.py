"""Describe the errors of an args.me JSON file, per argument if it is JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from submission.data.args_me_records import JSON_SCHEMA, id_suffix
from submission.data.json_errors import (
    NON_FINITE_HINT,
    Buffer,
    JsonPath,
    SyntaxIssue,
    find_invalid_utf8,
    format_path,
    format_position,
    scan,
)
from submission.errors import abbreviate

FIRST_LINE_BYTES = 1 << 24  # bytes searched for the end of the first line


class RawCorpus(msgspec.Struct, gc=False):
    """Corpus file with undecoded arguments."""

    arguments: list[msgspec.Raw]


def recover_arguments(file: Path, data: Buffer, error: Exception) -> tuple[list[str], Iterator[tuple[int, msgspec.Raw]]]:
    """Describe why a file could not be decoded as a RawCorpus; return also the numbered arguments without NaN and Infinity."""
    if isinstance(error, msgspec.ValidationError):
        return [f"{file}: {abbreviate(str(error), 200)}; {JSON_SCHEMA}{_jsonl_hint(data)}"], iter(())
    json_scan = scan(data)
    arguments: list[msgspec.Raw] = []
    if json_scan.non_finite and not json_scan.syntax_issue:
        with suppress(msgspec.ValidationError):
            arguments = msgspec.json.decode(json_scan.repaired, type=RawCorpus).arguments
    issues, with_constants = [], set()
    for constant in json_scan.non_finite:
        number, location, path = _locate(file, constant)
        with_constants.add(number)
        suffix = id_suffix(arguments[number - 1]) if number and arguments else ""
        issues.append(f"{location}{suffix}: {format_path(path)} is {constant.reason}; {NON_FINITE_HINT}")
    if (json_scan.syntax_issue or isinstance(error, UnicodeDecodeError)) and (
        syntax_error := find_invalid_utf8(data) or json_scan.syntax_issue
    ):
        issues.append(describe_syntax_error(file, data, syntax_error))
    rest = ((number, raw) for number, raw in enumerate(arguments, 1) if number not in with_constants)
    return issues or [f"{file}: {abbreviate(str(error), 200)}; {JSON_SCHEMA}"], rest


def describe_syntax_error(file: Path, data: Buffer, error: SyntaxIssue) -> str:
    """Describe a position that is not JSON or not UTF-8, by argument, line and column."""
    position = format_position(data, error.offset)
    return f"{_locate(file, error)[1]}, {position}: malformed JSON ({error.reason}); {JSON_SCHEMA}; copy the file again"


def _locate(file: Path, error: SyntaxIssue) -> tuple[int, str, JsonPath]:
    """Return the 1-based number of the argument that has an error (0 if none), its location, and the path inside it."""
    match error.path:
        case ("arguments", int(index), *path):
            return index + 1, f"{file}, argument {index + 1}", tuple(path)
    return 0, str(file), error.path


def _jsonl_hint(data: Buffer) -> str:
    """Return a hint if the first line is an argument; else ""."""
    first_line = bytes(data[:FIRST_LINE_BYTES]).partition(b"\n")[0]
    return "; files with one argument per line must be named .jsonl" if id_suffix(first_line) else ""
