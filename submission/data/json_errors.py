"""Locate errors in JSON that a decoder rejects: path, line and column."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from submission.errors import short

Data = bytes | bytearray | mmap.mmap
Steps = tuple[str | int, ...]  # keys and 0-based indices from the root to a value

TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
CONSTANTS = {b"NaN", b"Infinity", b"-Infinity"}  # written by Python's json.dump
PLACE = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")
DEEPEST = 500  # msgspec accepts slightly less than 1000 levels
NO_CONSTANTS = "NaN and Infinity are not valid JSON; replace them by a string, a number or null"


class Broken(NamedTuple):
    """Position that is not JSON or not UTF-8."""

    byte: int
    reason: str
    steps: Steps


class Survey(NamedTuple):
    """Errors of a JSON text."""

    text: bytearray  # with 0 for NaN and Infinity, to decode further
    constants: list[Broken]  # NaN and Infinity before the syntax error
    broken: Broken | None  # syntax error


def survey(data: Data) -> Survey:
    """Scan an invalid JSON text for errors."""
    text, constants = bytearray(data), []
    for start, token, path in _tokens(data, len(data)):
        if token in CONSTANTS:
            text[start : start + len(token)] = b"0".ljust(len(token))
            constants.append(Broken(start, token.decode(), _without_unknown_keys(path)))
    broken = _find_syntax_error(text)
    return Survey(text, [constant for constant in constants if broken is None or constant.byte < broken.byte], broken)


def dotted(steps: Steps) -> str:
    """Format a path: premises[0].text."""
    parts = (f"[{step}]" if isinstance(step, int) else f".{short(step)}" for step in steps)
    return "".join(parts).removeprefix(".") or "the root value"


def line_and_column(data: Data, byte: int) -> str:
    """Format the position of a byte as line and column, 1-based."""
    before = bytes(data[:byte])
    column = len(before[before.rfind(b"\n") + 1 :].decode(errors="replace")) + 1
    return f"line {before.count(bytes([10])) + 1}, column {column}"


def not_utf8(data: Data) -> Broken | None:
    """Return the first position that is not UTF-8; None if valid."""
    try:
        bytes(data).decode()
    except UnicodeDecodeError as error:
        return Broken(error.start, f"invalid UTF-8 at byte {error.start}", _path_at(data, error.start))
    return None


def line_fault(line: bytes, error: Exception) -> str:
    """Describe why a JSON line was rejected: path and value."""
    if isinstance(error, msgspec.ValidationError):
        return short(str(error), 200)
    broken = not_utf8(line)
    if not broken:
        scan = survey(line)
        if scan.constants:
            return f"{dotted(scan.constants[0].steps)} is {scan.constants[0].reason}; {NO_CONSTANTS}"
        broken = scan.broken
    if not broken:
        return f"malformed JSON ({short(str(error), 200)})"
    location = f", in {dotted(broken.steps)}" if broken.steps else ""
    return f"malformed JSON at byte {broken.byte}{location} ({broken.reason})"


def _find_syntax_error(text: Data) -> Broken | None:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except RecursionError:
        byte = next((start for start, _, path in _tokens(text, len(text)) if len(path) > DEEPEST), len(text))
        return Broken(byte, "nested too deeply", _path_at(text, byte)[:5])
    except ValueError as error:
        match = PLACE.fullmatch(str(error))
        byte, reason = (int(match[2]), match[1]) if match else (len(text), short(str(error), 200))
        return Broken(byte, reason, _path_at(text, byte))
    return None


def _path_at(data: Data, byte: int) -> Steps:
    """Return the path of the value at an offset."""
    path: list[str | int | None] = []
    for _, _, path in _tokens(data, byte + 1):  # noqa: B007  # only the last path matters
        pass
    return _without_unknown_keys(path)


def _without_unknown_keys(path: list[str | int | None]) -> Steps:
    return tuple(step for step in path if step is not None)


def _tokens(data: Data, end: int) -> Iterator[tuple[int, bytes, list[str | int | None]]]:
    """Yield tokens with offset and path; the path is one list, updated in place; None: key not read yet."""
    path: list[str | int | None] = []
    for match in TOKEN.finditer(data, 0, end):
        token = match.group()
        if token in b"{[":
            path.append(None if token == b"{" else 0)
        elif token in b"}]":
            del path[-1:]
        elif token == b"," and path:
            index = path[-1]
            path[-1] = index + 1 if isinstance(index, int) else None
        elif token[0] == ord('"') and path and path[-1] is None:
            path[-1] = _decode_key(token)
        yield match.start(), token, path


def _decode_key(token: bytes) -> str | None:
    """Decode a key; None if truncated or not a string."""
    try:
        return str(json.loads(token))
    except ValueError:
        return None
