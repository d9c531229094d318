"""Decode args.me arguments from JSON or JSON Lines, and describe invalid ones. A JSON line has one
of two layouts:

{"id": …, "conclusion": …, "premises": [{"text": …}]}
{"id": …, "conclusion": …, "argument": …}  as in the Hugging Face copy, with the text of the only
premise
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from aragorn.errors import InputError, abbreviate
from aragorn.io import input_files, json_errors
from aragorn.io.input_files import ID_RULE, is_invalid_id, iter_lines, yield_input_errors
from aragorn.io.json_errors import Buffer, SyntaxIssue, scan
from aragorn.timing import pause_gc

T = TypeVar("T")
JSONL_EXTENSIONS = (".jsonl", ".jsonl.gz")
JSON_SCHEMA = 'expected {"arguments": [{"id": …, "conclusion": …, "premises": [{"text": …}]}]}'
JSONL_SCHEMA = 'expected {"id": …, "conclusion": …, "premises": [{"text": …}]} or {"id": …, "conclusion": …, "argument": …}'
FIRST_LINE_BYTES = 1 << 24  # number of bytes searched for the end of the first line


class Premise(msgspec.Struct, gc=False):
    """Premise of an argument."""

    text: str


class Argument(msgspec.Struct, gc=False):
    """Argument with the fields that ranking uses."""

    id: str
    conclusion: str
    premises: tuple[Premise, ...]


class _JsonlRecord(msgspec.Struct, gc=False):
    id: str
    conclusion: str
    premises: tuple[Premise, ...] | UnsetType = UNSET
    argument: str | UnsetType = UNSET


class _IdOnly(msgspec.Struct):
    id: str


class _RawCorpus(msgspec.Struct, gc=False):
    """Content of a corpus file, with undecoded arguments."""

    arguments: list[msgspec.Raw]


class _InvalidRecordError(ValueError):
    """Error of a JSON line with an invalid id, or without exactly one of premises and argument."""


def is_jsonl(file: Path) -> bool:
    """Return whether a file name has a JSON Lines extension."""
    return file.name.endswith(JSONL_EXTENSIONS)


def read_corpus_file(file: Path) -> tuple[list[Argument], list[str]]:
    """Return the valid arguments of a corpus file and all issues; a valid JSON file is decoded in
    one call, which is faster."""
    if not is_jsonl(file):
        with suppress(ValueError, RecursionError, MemoryError):
            arguments = decode_arguments(Argument, file)
            if _have_valid_ids(arguments):
                return arguments, []
    return input_files.collect(iter_arguments(file))


def iter_arguments(file: Path) -> Iterator[Argument | InputError]:
    """Yield the arguments of a corpus file, and an InputError for each invalid one."""
    return _iter_jsonl(file) if is_jsonl(file) else _iter_json(file)


def decode_arguments(argument_type: type[T], file: Path) -> list[T]:
    """Decode the arguments of a corpus file as `argument_type`; raise ValueError if any does not
    match that type."""
    if is_jsonl(file):
        decoder = msgspec.json.Decoder(argument_type)
        return [decoder.decode(line) for _, line in iter_lines(file)]
    corpus_type: Any = msgspec.defstruct("Corpus", [("arguments", list[argument_type])], gc=False)  # type: ignore[valid-type]
    arguments: list[T] = msgspec.json.decode(
        input_files.read_json_bytes(file), type=corpus_type
    ).arguments
    return arguments


@yield_input_errors
def _iter_jsonl(file: Path) -> Iterator[Argument | InputError]:
    decode = msgspec.json.Decoder(_JsonlRecord).decode
    for line_number, line in iter_lines(file):
        try:
            argument = _to_argument(decode(line))
        except (ValueError, RecursionError) as error:
            reason = str(error)
            if not isinstance(error, _InvalidRecordError):
                hint = (
                    "; a single object with all arguments must be named .json"
                    if b'"arguments"' in line
                    else ""
                )
                reason = f"{json_errors.describe_line_error(line, error)}; {JSONL_SCHEMA}{hint}"
            yield InputError(f"{file}, line {line_number}{_format_id_suffix(line)}: {reason}")
        else:
            yield argument


def _to_argument(record: _JsonlRecord) -> Argument:
    if is_invalid_id(record.id):
        raise _InvalidRecordError(f"invalid id '{abbreviate(record.id)}'; {ID_RULE}")
    if record.premises is not UNSET and record.argument is not UNSET:
        raise _InvalidRecordError(
            f"has both premises and argument; remove one of them; {JSONL_SCHEMA}"
        )
    if record.argument is not UNSET:
        return Argument(record.id, record.conclusion, (Premise(record.argument),))
    if record.premises is UNSET:
        raise _InvalidRecordError(f"has neither premises nor argument; {JSONL_SCHEMA}")
    return Argument(record.id, record.conclusion, record.premises)


@yield_input_errors
def _iter_json(file: Path) -> Iterator[Argument | InputError]:
    """Yield the arguments and errors of a JSON file; arguments are decoded in batches to save
    memory."""
    data = input_files.read_json_bytes(file)
    try:
        with pause_gc():
            raw_arguments = msgspec.json.decode(data, type=_RawCorpus).arguments
    except (ValueError, RecursionError) as error:
        yield from _recover_arguments(file, data, error)
        return
    decode = msgspec.json.Decoder(Argument).decode
    count = 0
    for batch in input_files.batched(raw_arguments):
        arguments: list[Argument] = []
        with pause_gc(), suppress(ValueError, RecursionError):
            arguments = [*map(decode, batch)]
        if _have_valid_ids(arguments):
            yield from arguments
        else:
            yield from (
                _decode_argument(file, data, position, raw)
                for position, raw in enumerate(batch, count + 1)
            )
        count += len(batch)


def _have_valid_ids(arguments: Sequence[Argument]) -> bool:
    ids = [argument.id for argument in arguments]
    return all(ids) and not is_invalid_id("".join(ids))  # a single test of all ids is fast


def _recover_arguments(
    file: Path, data: Buffer, error: Exception
) -> Iterator[Argument | InputError]:
    """Yield the errors of a file that cannot be decoded, and its arguments if invalid values are
    the only errors."""
    if isinstance(error, msgspec.ValidationError):
        is_jsonl_data = _format_id_suffix(bytes(data[:FIRST_LINE_BYTES]).partition(b"\n")[0])
        hint = "; files with one argument per line must be named .jsonl" if is_jsonl_data else ""
        if bytes(data[:FIRST_LINE_BYTES]).lstrip()[:1] == b"[":
            hint = '; a list of arguments must be the value of "arguments"'
        yield InputError(f"{file}: {abbreviate(str(error), 200)}; {JSON_SCHEMA}{hint}")
        return
    json_scan = scan(data)
    arguments: list[msgspec.Raw] = []
    if json_scan.invalid_values and not json_scan.syntax_issue:
        with suppress(msgspec.ValidationError):
            arguments = msgspec.json.decode(json_scan.repaired_text, type=_RawCorpus).arguments
    invalid_positions = set()
    for value in json_scan.invalid_values:
        position, location, path = _locate(file, value)
        invalid_positions.add(position)
        suffix = _format_id_suffix(arguments[position - 1]) if position and arguments else ""
        yield InputError(f"{location}{suffix}: {json_errors.format_path(path)} {value.reason}")
    if json_scan.syntax_issue or isinstance(error, UnicodeDecodeError):
        yield _build_syntax_error(file, data, json_scan.syntax_issue)
    elif not json_scan.invalid_values:
        yield InputError(f"{file}: {abbreviate(str(error), 200)}; {JSON_SCHEMA}")
    for position, raw in enumerate(arguments, 1):
        if position not in invalid_positions:
            yield _decode_argument(file, data, position, raw)


def _decode_argument(
    file: Path, data: Buffer, position: int, raw: msgspec.Raw
) -> Argument | InputError:
    """Return a decoded argument, or an InputError if it is invalid; raise InputError if the file is
    not UTF-8."""
    try:
        argument = msgspec.json.decode(raw, type=Argument)
    except UnicodeDecodeError:
        raise _build_syntax_error(file, data, None) from None
    except (ValueError, RecursionError) as error:
        return InputError(
            f"{file}, argument {position}{_format_id_suffix(raw)}: {abbreviate(str(error), 200)}; {JSON_SCHEMA}"
        )
    if is_invalid_id(argument.id):
        return InputError(
            f"{file}, argument {position}: invalid id '{abbreviate(argument.id)}'; {ID_RULE}"
        )
    return argument


def _build_syntax_error(file: Path, data: Buffer, syntax_issue: SyntaxIssue | None) -> InputError:
    """Return the error for invalid UTF-8, else for the syntax issue, with argument, line and
    column."""
    utf8_issue = json_errors.find_invalid_utf8(data)
    issue, fix = (
        utf8_issue or syntax_issue,
        "convert it to UTF-8" if utf8_issue else "correct the file or copy it again",
    )
    assert issue
    location = f"{_locate(file, issue)[1]}, {json_errors.format_position(data, issue.offset)}"
    return InputError(f"{location}: malformed JSON ({issue.reason}); {JSON_SCHEMA}; {fix}")


def _locate(file: Path, issue: SyntaxIssue) -> tuple[int, str, json_errors.JsonPath]:
    """Return the argument's number (0: outside arguments), the location for messages and the path
    within the argument."""
    match issue.path:
        case ("arguments", int(index), *path):
            return index + 1, f"{file}, argument {index + 1}", tuple(path)
    return 0, str(file), issue.path


def _format_id_suffix(data: bytes | msgspec.Raw) -> str:
    """Return " (id X)" for messages about an undecoded argument; "" if it has no valid id."""
    try:
        try:
            docno = msgspec.json.decode(data, type=_IdOnly).id
        except msgspec.ValidationError:
            return ""
        except (ValueError, RecursionError):
            docno = msgspec.json.decode(scan(bytes(data)).repaired_text, type=_IdOnly).id
    except (ValueError, RecursionError):
        return ""
    return "" if is_invalid_id(docno) else f" (id {abbreviate(docno)})"
