"""Describe the errors of an args.me JSON file, per argument if it is JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from submission.data.args_me_records import JSON_SCHEMA, Argument, id_suffix
from submission.data.input_files import ID_RULE, is_invalid_id
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
from submission.errors import InputError, abbreviate

FIRST_LINE_BYTES = 1 << 24  # bytes searched for the end of the first line


class RawCorpus(msgspec.Struct, gc=False):
    """Corpus file with undecoded arguments."""

    arguments: list[msgspec.Raw]


def recover_arguments(file: Path, data: Buffer, error: Exception) -> Iterator[Argument | InputError]:
    """Yield the errors of a file that cannot be decoded as a RawCorpus, and its arguments if only NaN or Infinity is wrong."""
    if isinstance(error, msgspec.ValidationError):
        yield InputError(f"{file}: {abbreviate(str(error), 200)}; {JSON_SCHEMA}{_jsonl_hint(data)}")
        return
    json_scan = scan(data)
    arguments: list[msgspec.Raw] = []
    if json_scan.non_finite and not json_scan.syntax_issue:
        with suppress(msgspec.ValidationError):
            arguments = msgspec.json.decode(json_scan.repaired, type=RawCorpus).arguments
    with_constants = set()
    for constant in json_scan.non_finite:
        number, location, path = _locate(file, constant)
        with_constants.add(number)
        suffix = id_suffix(arguments[number - 1]) if number and arguments else ""
        yield InputError(f"{location}{suffix}: {format_path(path)} is {constant.reason}; {NON_FINITE_HINT}")
    if json_scan.syntax_issue or isinstance(error, UnicodeDecodeError):
        yield _syntax_error(file, data, find_invalid_utf8(data) or json_scan.syntax_issue)
    elif not json_scan.non_finite:
        yield InputError(f"{file}: {abbreviate(str(error), 200)}; {JSON_SCHEMA}")
    for number, raw in enumerate(arguments, 1):
        if number not in with_constants:
            yield decode_argument(file, data, number, raw)


def decode_argument(file: Path, data: Buffer, number: int, raw: msgspec.Raw) -> Argument | InputError:
    """Decode an argument, or return why it is invalid; raise InputError if the file is not UTF-8."""
    try:
        argument = msgspec.json.decode(raw, type=Argument)
    except UnicodeDecodeError:
        raise _syntax_error(file, data, find_invalid_utf8(data)) from None
    except (ValueError, RecursionError) as error:
        return InputError(f"{file}, argument {number}{id_suffix(raw)}: {abbreviate(str(error), 200)}; {JSON_SCHEMA}")
    if is_invalid_id(argument.id):
        return InputError(f"{file}, argument {number}: invalid id '{abbreviate(argument.id)}'; {ID_RULE}")
    return argument


def _syntax_error(file: Path, data: Buffer, error: SyntaxIssue | None) -> InputError:
    """Return the error for a position that is not JSON or not UTF-8, with argument, line and column."""
    if not error:
        return InputError(f"{file}: malformed JSON; {JSON_SCHEMA}; copy the file again")
    location, position = _locate(file, error)[1], format_position(data, error.offset)
    return InputError(f"{location}, {position}: malformed JSON ({error.reason}); {JSON_SCHEMA}; copy the file again")


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
