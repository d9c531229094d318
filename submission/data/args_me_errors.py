"""Describe the errors of an args.me JSON file, per argument if it is JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from submission.data.args_me_records import JSON_SCHEMA, id_suffix
from submission.data.json_errors import NO_CONSTANTS, Broken, Data, Steps, dotted, line_and_column, not_utf8, survey
from submission.errors import short

FIRST = 1 << 24  # bytes searched for the end of the first line


class RawCorpus(msgspec.Struct, gc=False):
    """Corpus file with undecoded arguments."""

    arguments: list[msgspec.Raw]


def recover_arguments(file: Path, data: Data, error: Exception) -> tuple[list[str], Iterator[tuple[int, msgspec.Raw]]]:
    """Describe why a file could not be decoded as a RawCorpus; return also the numbered arguments without NaN and Infinity."""
    if isinstance(error, msgspec.ValidationError):
        return [f"{file}: {short(str(error), 200)}; {JSON_SCHEMA}{_jsonl_hint(data)}"], iter(())
    scan = survey(data)
    arguments: list[msgspec.Raw] = []
    if scan.constants and not scan.broken:
        with suppress(msgspec.ValidationError):
            arguments = msgspec.json.decode(scan.text, type=RawCorpus).arguments
    issues, with_constants = [], set()
    for constant in scan.constants:
        number, location, path = _locate(file, constant)
        with_constants.add(number)
        suffix = id_suffix(arguments[number - 1]) if number and arguments else ""
        issues.append(f"{location}{suffix}: {dotted(path)} is {constant.reason}; {NO_CONSTANTS}")
    if (scan.broken or isinstance(error, UnicodeDecodeError)) and (syntax_error := not_utf8(data) or scan.broken):
        issues.append(describe_syntax_error(file, data, syntax_error))
    rest = ((number, raw) for number, raw in enumerate(arguments, 1) if number not in with_constants)
    return issues or [f"{file}: {short(str(error), 200)}; {JSON_SCHEMA}"], rest


def describe_syntax_error(file: Path, data: Data, error: Broken) -> str:
    """Describe a position that is not JSON or not UTF-8, by argument, line and column."""
    position = line_and_column(data, error.byte)
    return f"{_locate(file, error)[1]}, {position}: malformed JSON ({error.reason}); {JSON_SCHEMA}; copy the file again"


def _locate(file: Path, error: Broken) -> tuple[int, str, Steps]:
    """Return the 1-based number of the argument that has an error (0 if none), its location, and the path inside it."""
    match error.steps:
        case ("arguments", int(index), *path):
            return index + 1, f"{file}, argument {index + 1}", tuple(path)
    return 0, str(file), error.steps


def _jsonl_hint(data: Data) -> str:
    """Return a hint if the first line is an argument; else ""."""
    first_line = bytes(data[:FIRST]).partition(b"\n")[0]
    return "; files with one argument per line must be named .jsonl" if id_suffix(first_line) else ""
