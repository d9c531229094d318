"""List all faults of a refused args.me file: each of its arguments, as far as the file is JSON."""

from __future__ import annotations

from pathlib import Path

import msgspec

from submission.errors import short
from submission.input.arguments import EXPECTED, Argument, Places
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

FIRST = 1 << 24  # bytes in which the first line of a file is looked for


class _Named(msgspec.Struct):
    id: str


def file_faults(file: Path, data: Data, error: BaseException) -> list[str]:
    """List all faults of a file that was refused with an error, at least that one."""
    if isinstance(error, MemoryError):
        return [f"{file}: larger than the memory of this machine; give it more, or a smaller file"]
    if isinstance(error, UnicodeDecodeError) and (broken := not_utf8(data)):
        return [_malformed(file, data, broken)]
    return _faults(file, data) or [f"{file}: {short(str(error), 200)}; {EXPECTED}"]


def _faults(file: Path, data: Data) -> list[str]:
    constants: list[Constant] = []
    try:
        arguments = msgspec.json.decode(data, type=Places).arguments
    except msgspec.ValidationError as error:
        return [f"{file}: {short(str(error), 200)}; {EXPECTED}{_advice(data)}"]
    except (ValueError, RecursionError):
        seen = survey(data)
        if seen.broken:
            return [*_of_constants(file, seen.constants, []), _malformed(file, data, not_utf8(data) or seen.broken)]
        constants = seen.constants
        try:
            arguments = msgspec.json.decode(seen.text, type=Places).arguments
        except msgspec.ValidationError:
            arguments = []
    having = {_number(constant.steps) for constant in constants}
    return [
        *_of_constants(file, constants, arguments),
        *(
            f"{file}, argument number {number}{_name(raw)}: {fault}; {EXPECTED}"
            for number, raw in enumerate(arguments, 1)
            if number not in having and (fault := _fault(raw))
        ),
    ]


def _of_constants(file: Path, constants: list[Constant], arguments: list[msgspec.Raw]) -> list[str]:
    """Describe NaN and Infinity in a file, by the ids of their arguments as far as these are known."""
    faults = []
    for constant in constants:
        number, place, steps = _number(constant.steps), str(file), constant.steps
        if number:
            name = _name(arguments[number - 1]) if arguments else ""
            place, steps = f"{file}, argument number {number}{name}", steps[2:]
        faults.append(f"{place}: {dotted(steps)} is {constant.name}; {NO_CONSTANTS}")
    return faults


def _malformed(file: Path, data: Data, broken: Broken) -> str:
    number = _number(broken.steps)
    place = f"{file}, argument number {number}" if number else str(file)
    return f"{place}, {line_and_column(data, broken.byte)}: malformed JSON ({broken.reason}); {EXPECTED}; copy the file again"


def _advice(data: Data) -> str:
    """Advise what to do with a file that is no corpus although its first line is an argument; "" for another one."""
    first = bytes(data[:FIRST]).partition(b"\n")[0]
    return "; a file with one argument a line has to be named .jsonl" if _name(first) else ""


def _number(steps: Steps) -> int:
    """The number of the argument that steps lead into, from 1; 0: they lead into none."""
    match steps:
        case ["arguments", int(number), *_]:
            return number + 1
    return 0


def _fault(raw: msgspec.Raw) -> str:
    """Describe the fault of an argument; "" where it has none."""
    try:
        msgspec.json.decode(raw, type=Argument)
    except (ValueError, RecursionError) as error:
        return short(str(error), 200)
    return ""


def _name(raw: msgspec.Raw | bytes) -> str:
    """An argument's id for messages; "" if it has none."""
    try:
        return f" (id {short(msgspec.json.decode(raw, type=_Named).id)})"
    except (ValueError, RecursionError):
        return ""
