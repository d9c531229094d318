"""Locate errors in malformed JSON by path, line and column."""

import json
import mmap
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from aragorn.errors import abbreviate

Buffer = bytes | bytearray | mmap.mmap
JsonPath = tuple[str | int, ...]  # keys and 0-based indices from the root to a value

TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
# invalid JSON, but written by Python's json.dump
NON_FINITE_TOKENS = {b"NaN", b"Infinity", b"-Infinity"}
MSGSPEC_MESSAGE = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")
# deeper JSON is reported as too deep; msgspec accepts slightly fewer than 1000 levels
MAX_NESTING = 500
NON_FINITE_HINT = (
    "NaN and Infinity are not valid JSON; replace them with a string, a number or null"
)
ESCAPE = re.compile(
    rb"\\(?:ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(ud[89a-f][0-9a-f]{2})|.)", re.I | re.S
)  # group: lone surrogate
SURROGATE_HINT = r"UTF-8 cannot encode a lone surrogate; replace it with \ufffd"


class SyntaxIssue(NamedTuple):
    """Syntax error, NaN, Infinity, lone surrogate or invalid UTF-8 at a byte offset of a JSON
    text."""

    offset: int
    reason: str
    path: JsonPath  # of the value at the offset


class JsonScan(NamedTuple):
    """Errors of a JSON text, and a copy of the text with invalid values replaced: NaN, Infinity and
    lone surrogates."""

    # text with 0 in place of NaN and Infinity, and U+FFFD in place of lone surrogates
    repaired_text: bytearray
    # invalid values before the syntax error; their reasons include a fix
    invalid_values: list[SyntaxIssue]
    syntax_issue: SyntaxIssue | None


def scan(data: Buffer) -> JsonScan:
    """Find the invalid values and the first syntax error of an invalid JSON text."""
    repaired_text, values = bytearray(data), []
    for start, token, path in _iter_tokens(data, len(data)):
        if token in NON_FINITE_TOKENS:
            repaired_text[start : start + len(token)] = b"0".ljust(len(token))
            values.append(
                SyntaxIssue(
                    start, f"is {token.decode()}; {NON_FINITE_HINT}", _drop_unknown_keys(path)
                )
            )
        for escape in ESCAPE.finditer(token):
            if escape[1]:
                offset, reason = (
                    start + escape.start(),
                    f"contains {escape[0].decode()}; {SURROGATE_HINT}",
                )
                repaired_text[offset : offset + len(escape[0])] = rb"\ufffd"
                values.append(SyntaxIssue(offset, reason, _drop_unknown_keys(path)))
    issue = _find_syntax_issue(repaired_text)
    return JsonScan(
        repaired_text,
        [value for value in values if not issue or value.offset < issue.offset],
        issue,
    )


def format_path(path: JsonPath) -> str:
    """Format a path, e.g. premises[0].text."""
    parts = (f"[{step}]" if isinstance(step, int) else f".{abbreviate(step)}" for step in path)
    return "".join(parts).removeprefix(".") or "the root value"


def format_position(data: Buffer, offset: int) -> str:
    """Format the position of a byte as 1-based line and column."""
    prefix = bytes(data[:offset])
    column = len(prefix[prefix.rfind(b"\n") + 1 :].decode(errors="replace")) + 1
    return f"line {prefix.count(bytes([10])) + 1}, column {column}"


def find_invalid_utf8(data: Buffer) -> SyntaxIssue | None:
    """Return the issue at the first byte that is invalid in UTF-8; None if the text is valid."""
    try:
        bytes(data).decode()
    except UnicodeDecodeError as error:
        return SyntaxIssue(
            error.start, f"invalid UTF-8 at byte {error.start}", _find_path(data, error.start)
        )
    return None


def describe_line_error(line: bytes, error: Exception) -> str:
    """Describe why a JSON line was rejected, with the path to the invalid value."""
    if isinstance(error, msgspec.ValidationError):
        return abbreviate(str(error), 200)
    issue = find_invalid_utf8(line)
    if not issue:
        _, values, issue = scan(line)
        if values:
            return f"{format_path(values[0].path)} {values[0].reason}"
    if not issue:
        return f"malformed JSON ({abbreviate(str(error), 200)})"
    location = f", in {format_path(issue.path)}" if issue.path else ""
    return f"malformed JSON at byte {issue.offset}{location} ({issue.reason})"


def _find_syntax_issue(text: Buffer) -> SyntaxIssue | None:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except RecursionError:
        offset = next(
            (start for start, _, path in _iter_tokens(text, len(text)) if len(path) > MAX_NESTING),
            len(text),
        )
        return SyntaxIssue(offset, "nested too deeply", _find_path(text, offset)[:5])
    except ValueError as error:
        match = MSGSPEC_MESSAGE.fullmatch(str(error))
        offset, reason = (
            (int(match[2]), match[1]) if match else (len(text), abbreviate(str(error), 200))
        )
        return SyntaxIssue(offset, reason, _find_path(text, offset))
    return None


def _find_path(data: Buffer, offset: int) -> JsonPath:
    """Return the path of the value at a byte offset, as far as its keys are known."""
    path: list[str | int | None] = []
    for _, _, path in _iter_tokens(data, offset + 1):  # noqa: B007 only the last path is needed
        pass
    return _drop_unknown_keys(path)


def _drop_unknown_keys(path: list[str | int | None]) -> JsonPath:
    return tuple(step for step in path if step is not None)


def _iter_tokens(data: Buffer, end: int) -> Iterator[tuple[int, bytes, list[str | int | None]]]:
    """Yield offset, token and path of each token before `end`. The path is updated in place; None
    is a key not yet read."""
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
            with suppress(ValueError):  # truncated string
                path[-1] = str(json.loads(token))
        yield match.start(), token, path
