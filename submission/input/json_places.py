"""Locate the fault in a JSON text that a decoder refuses: field, line and column."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from submission.errors import short

Data = bytes | bytearray | mmap.mmap
Steps = tuple[str | int, ...]  # to a value: keys, and numbers from 0

TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
CONSTANTS = {b"NaN", b"Infinity", b"-Infinity"}  # which Python's json.dump writes
PLACE = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")
DEEPEST = 500  # levels; the decoder takes somewhat less than a thousand
NO_CONSTANTS = "JSON has no NaN and no Infinity: write the file again with a text, a number or null there"


@dataclass(frozen=True)
class Constant:
    """A NaN or an Infinity."""

    name: str
    steps: Steps


@dataclass(frozen=True)
class Broken:
    """The first place that is no JSON, or not UTF-8."""

    byte: int
    reason: str
    steps: Steps


@dataclass(frozen=True)
class Survey:
    """The places of a text that are no JSON.

    text       with a 0 in the place of each constant, so that what else is wrong can be found
    constants  those before the broken place
    broken     None: but for the constants the text is JSON
    """

    text: Data
    constants: list[Constant]
    broken: Broken | None


def survey(data: Data) -> Survey:
    """Look through a text that is no JSON."""
    text, constants = bytearray(data), []
    for start, token, steps in _tokens(data, len(data)):
        if token in CONSTANTS:
            text[start : start + len(token)] = b"0".ljust(len(token))
            constants.append((start, Constant(token.decode(), _known(steps))))
    broken = _broken(text)
    return Survey(text, [found for start, found in constants if broken is None or start < broken.byte], broken)


def dotted(steps: Steps) -> str:
    """Steps as people write them: premises[0].text."""
    parts = (f"[{step}]" if isinstance(step, int) else f".{short(step)}" for step in steps)
    return "".join(parts).removeprefix(".") or "all of it"


def line_and_column(data: Data, byte: int) -> str:
    """The place of a byte, both numbers from 1."""
    before = bytes(data[:byte])
    column = len(before[before.rfind(b"\n") + 1 :].decode(errors="replace")) + 1
    return f"line {before.count(bytes([10])) + 1}, column {column}"


def not_utf8(data: Data) -> Broken | None:
    """The first place that is not UTF-8; None: there is none."""
    try:
        bytes(data).decode()
    except UnicodeDecodeError as error:
        return Broken(error.start, f"byte {error.start} is not UTF-8", _steps_to(data, error.start))
    return None


def line_fault(line: bytes, error: Exception) -> str:
    """Describe the fault of a line of JSON that a decoder refused: the field, and what it holds."""
    if isinstance(error, msgspec.ValidationError):
        return short(str(error), 200)
    broken = not_utf8(line)
    if not broken:
        seen = survey(line)
        if seen.constants:
            return f"{dotted(seen.constants[0].steps)} is {seen.constants[0].name}; {NO_CONSTANTS}"
        broken = seen.broken
    if not broken:
        return f"malformed JSON ({short(str(error), 200)})"
    inside = f", in {dotted(broken.steps)}" if broken.steps else ""
    return f"malformed JSON at byte {broken.byte}{inside} ({broken.reason})"


def _broken(text: Data) -> Broken | None:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except RecursionError:
        byte = next((start for start, _, steps in _tokens(text, len(text)) if len(steps) > DEEPEST), len(text))
        return Broken(byte, "nested too deeply", _steps_to(text, byte)[:5])
    except ValueError as error:
        found = PLACE.fullmatch(str(error))
        byte, reason = (int(found[2]), found[1]) if found else (len(text), short(str(error), 200))
        return Broken(byte, reason, _steps_to(text, byte))
    return None


def _steps_to(data: Data, byte: int) -> Steps:
    """The steps to the value that a byte is in."""
    steps: list[str | int | None] = []
    for _, _, steps in _tokens(data, byte + 1):  # noqa: B007  # the steps to the last one are asked for
        pass
    return _known(steps)


def _known(steps: list[str | int | None]) -> Steps:
    return tuple(step for step in steps if step is not None)


def _tokens(data: Data, end: int) -> Iterator[tuple[int, bytes, list[str | int | None]]]:
    """Texts, numbers and signs, each with its first byte and the steps to it: one list that changes; None: no key yet."""
    steps: list[str | int | None] = []
    for match in TOKEN.finditer(data, 0, end):
        token = match.group()
        if token in b"{[":
            steps.append(None if token == b"{" else 0)
        elif token in b"}]":
            del steps[-1:]
        elif token == b"," and steps:
            last = steps[-1]
            steps[-1] = last + 1 if isinstance(last, int) else None
        elif token[0] == ord('"') and steps and steps[-1] is None:
            steps[-1] = _key(token)
        yield match.start(), token, steps


def _key(token: bytes) -> str | None:
    """A key; None: it is cut, or no text."""
    try:
        return str(json.loads(token))
    except ValueError:
        return None
