"""Find and read the files of an input; every failure raises an InputError that names the file."""

import gzip
import mmap
import os
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from fnmatch import fnmatch
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import TypeVar
from zipfile import ZipExtFile

import msgspec

from aragorn.errors import (
    InputError,
    abbreviate,
    abbreviate_list,
    as_memory_errors,
    build_unreadable_input_error,
    escape_unprintable,
)
from aragorn.io import irds
from aragorn.io.formats import START_SIZE, ZIP, describe_text, refuse_format
from aragorn.progress import pause_gc
from aragorn.storage.archives import find_archive, is_archive, list_members, open_file
from aragorn.storage.atomic_files import open_regular

T = TypeVar("T")
Buffer = bytes | bytearray | mmap.mmap
BATCH_SIZE = 1 << 14
BOM = b"\xef\xbb\xbf"
GZIP_START = b"\x1f\x8b"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
CHUNK_BYTES = 1 << 24  # bytes decompressed at a time
# decompression limit: MAX_EXPANSION × compressed size + EXTRA_BYTES
MAX_EXPANSION = 200
EXTRA_BYTES = 1 << 26
MAX_LINE_BYTES = 1 << 28
# minimum number of bytes counted per line, so that many blank lines also exceed the limit
MIN_LINE_COST = 32
# Unicode categories of characters that ids must not contain, as they would corrupt run files or be
# invisible: control, format, surrogate, separators
INVALID_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}
# invisible characters of other categories: blanks, fillers, joiners, variation selectors, and
# unassigned ones that Unicode reserves for such; noncharacters
INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\ufffc"
    "\U00016fe4\U0001d159\U000e0000-\U000e0fff\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | 0xFFFE) + chr(plane << 16 | 0xFFFF) for plane in range(17))
    + "]"
)
ID_RULE = "ids must be non-empty, without whitespace or invisible characters"
SYNTAX_ERROR = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")
NON_FINITE = re.compile(rb"NaN|-?Infinity")  # invalid JSON, but written by Python's json.dump
# a surrogate pair, a lone surrogate (the group), or another escape sequence
ESCAPE = re.compile(
    rb"\\(?:ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(ud[89a-f][0-9a-f]{2})|.)", re.I | re.S
)
MAX_ESCAPE_BYTES = 12


class Inputs:
    """Files of the directories, archives (with all folders) and files of an input, listed once."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """List the files; raise InputError for a path that is missing or unreadable."""
        self.files_by_path = [(path, _list_files(path)) for path in paths]
        self._files = [file for _, files in self.files_by_path for file in files]

    def find(self, *patterns: str) -> list[Path]:
        """Return the files whose names match a glob pattern, see `select_files`."""
        return select_files(self._files, *patterns)

    def require(self, kind: str, expected: str, *patterns: str) -> list[Path]:
        """Return the files whose names match a glob pattern; raise InputError if there are none."""
        files = self.find(*patterns)
        if not files:
            raise self.build_missing_error(kind, expected)
        return files

    def build_missing_error(self, kind: str, expected: str) -> InputError:
        """Return the error for an input without a kind of file, with the names of five files."""
        names = abbreviate_list([file.name for file in self.find("*")]) or "no files"
        has_subdirectory = any(map(os.path.isdir, self._files))
        hint = "; subdirectories are not searched; pass each with -i" if has_subdirectory else ""
        for file in self.find("*.csv", "*.tsv", "corpus.jsonl"):
            hint += f"; {file.name}: CSV, BEIR and TIREx without queries.jsonl are not supported"
        paths = ", ".join(str(path) for path, _ in self.files_by_path)
        return InputError(paths, "", f"no {kind} found among {names}", f"{expected}{hint}")


def select_files(files: Iterable[Path], *patterns: str) -> list[Path]:
    """Return the files whose names, without .gz, match a glob pattern, sorted by name and path."""
    matches = [
        file
        for file in files
        if any(fnmatch(file.name.removesuffix(".gz"), pattern) for pattern in patterns)
    ]
    return sorted(matches, key=lambda file: (file.name, file))


def _list_files(path: Path) -> list[Path]:
    """Return the files of a directory, archive or data set of ir_datasets, or the file itself."""
    if irds.is_identifier(path):
        path = irds.export(path)
    try:
        if path.is_dir():
            return list(path.iterdir())
        if not is_archive(path):
            with as_input_errors(path), _open_content(path):
                return [path]
        with open_regular(path) as stream:
            refuse_format(path, stream.peek(START_SIZE), ZIP)
        return list_members(path)
    except FileNotFoundError:
        expected = (
            "expected topics*.xml and args.me JSON, or a TIREx data set, as directory, zip archive "
            "or files"
        )
        raise InputError(path, "", "input not found", expected) from None
    except OSError as error:
        raise build_unreadable_input_error(error) from None


@contextmanager
def as_input_errors(file: Path) -> Iterator[None]:
    """Convert exceptions of a `with` block that reads `file` to InputErrors that name it."""
    try:
        with as_memory_errors(file):
            yield
    except InputError:
        raise
    except gzip.BadGzipFile as error:
        fix = "remove .gz from its name, or copy it again if damaged"
        raise InputError(file, "", f"no gzip file ({error})", fix) from None
    except (EOFError, zlib.error) as error:
        raise InputError(file, "", f"damaged gzip file ({error})", "copy the file again") from None
    except OSError as error:
        raise build_unreadable_input_error(error) from None
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 at byte {error.start}"
        raise InputError(file, "", reason, "convert it to UTF-8") from None


def read_bytes(file: Path) -> Buffer:
    """Return the decompressed content of a file; a plain one is mapped, as a copy takes time."""
    with as_input_errors(file), _open_content(file) as stream:
        if isinstance(stream, BufferedReader):
            is_empty = os.fstat(stream.fileno()).st_size == 0  # which cannot be mapped
            return b"" if is_empty else mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        limit = _compute_decompression_limit(file)
        data = bytearray()
        while chunk := stream.read(CHUNK_BYTES):
            data += chunk
            if len(data) > limit:
                raise _build_expansion_error(file, limit)
        return data


def read_text(file: Path) -> str:
    """Return the text of a UTF-8 file, plain or gzipped, without byte order mark."""
    with as_input_errors(file):
        data = bytes(read_bytes(file))
        if b"\0" in data and not data.startswith(UTF16_BOMS):
            reason = "has null characters and thus is no text file"
            raise InputError(file, "", reason, "use a text file, or unpack the archive")
        return data.decode("utf-8-sig")


def iter_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number (from 1) and bytes of each non-blank line of a file, without byte order mark."""
    with as_input_errors(file), _open_content(file) as stream:
        remaining_bytes = limit = _compute_decompression_limit(file)
        lines = iter(lambda: stream.readline(MAX_LINE_BYTES), b"")
        for line_number, line in enumerate(lines, 1):
            remaining_bytes -= max(len(line), MIN_LINE_COST)
            if remaining_bytes < 0:
                raise _build_expansion_error(file, limit)
            if len(line) == MAX_LINE_BYTES:
                reason = f"at least {MAX_LINE_BYTES:,} bytes long"
                raise InputError(file, f"line {line_number}", reason, "split or shorten it")
            text = line.removeprefix(BOM) if line_number == 1 else line
            if text.strip():
                yield line_number, text


@contextmanager
def _open_content(file: Path) -> Iterator[BufferedReader | ZipExtFile | gzip.GzipFile]:
    """Open a file, decompressed if it is gzipped; raise InputError for the formats of FILES."""
    with open_file(file) as file_stream:
        start = file_stream.peek(START_SIZE)
        is_gzip = start[:2] == GZIP_START
        if not is_gzip:
            refuse_format(file, start)
        with (
            gzip.open(file_stream) if is_gzip or file.suffix == ".gz" else nullcontext(file_stream)
        ) as stream:
            if stream is not file_stream:
                refuse_format(file, stream.peek(START_SIZE))
            yield stream


def _compute_decompression_limit(file: Path) -> int:
    return EXTRA_BYTES + MAX_EXPANSION * (find_archive(file) or file).stat().st_size


def _build_expansion_error(file: Path, limit: int) -> InputError:
    reason = f"expands to more than {limit:,} bytes (decompression bomb?)"
    return InputError(file, "", reason, "if the file is genuine, decompress it first")


def describe_json_error(data: Buffer, error: Exception) -> tuple[int, str, str]:
    """Return the byte offset of the first syntax error (else the length), problem and fix."""
    if isinstance(error, RecursionError):
        return len(data), "JSON nested too deeply", "replace it with the original file"
    try:
        bytes(data).decode()
    except UnicodeDecodeError as utf8_error:
        return utf8_error.start, "malformed JSON (not UTF-8)", "convert it to UTF-8"
    match = SYNTAX_ERROR.fullmatch(str(error))
    offset = int(match[2]) if match else len(data)
    if value := NON_FINITE.match(data, offset):
        fix = "replace it with a string, a number or null"
        return offset, f"{value[0].decode()} is not valid JSON", fix
    for escape in ESCAPE.finditer(data, 0, offset + MAX_ESCAPE_BYTES):
        if escape[1]:
            reason = f"\\{escape[1].decode()} is a lone surrogate, which UTF-8 cannot encode"
            return escape.start(), reason, r"replace it with \ufffd"
    reason = match[1] if match else abbreviate(str(error), 200)
    fix = f"correct the file or copy it again{describe_text(bytes(data[:START_SIZE]), 'JSON')}"
    return offset, f"malformed JSON ({reason})", fix


def batched(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield lists of at most BATCH_SIZE items."""
    iterator = iter(items)
    while True:
        with pause_gc():
            batch = list(islice(iterator, BATCH_SIZE))
        if not batch:
            return
        yield batch


def read_jsonl(file: Path, record_type: type[T], expected: str) -> Iterator[tuple[int, T]]:
    """Yield line number and record of each line; raise InputError for the first invalid one."""
    return decode_records(file, "line", iter_lines(file), record_type, expected)


def decode_records(
    file: Path,
    unit: str,
    records: Iterable[tuple[int, bytes | msgspec.Raw]],
    record_type: type[T],
    expected: str,
) -> Iterator[tuple[int, T]]:
    """Yield position and decoded record of each record; raise InputError for the first invalid one,
    at the position of this unit."""
    decode = msgspec.json.Decoder(record_type).decode
    for position, data in records:
        try:
            record = decode(data)
        except (ValueError, RecursionError) as error:
            location = f"{unit} {position}{format_id(data)}"
            raise build_record_error(file, location, data, error, expected) from None
        yield position, record


class _IdOnly(msgspec.Struct):
    id: str


def format_id(record: bytes | msgspec.Raw) -> str:
    """Return " (id X)" for messages about a record; "" if it has no `id`."""
    try:
        return f" (id {abbreviate(msgspec.json.decode(record, type=_IdOnly).id)})"
    except (ValueError, RecursionError):
        return ""


def build_record_error(
    file: Path, location: str, data: bytes | msgspec.Raw, error: Exception, expected: str
) -> InputError:
    text = bytes(data).strip()
    if location.startswith("line") and (text == b"{" or text.startswith(b"[")):
        is_array = len(text) > 1
        reason = "a JSON array" if is_array else "a JSON value over several lines"
        command = "jq --compact-output '.[]'" if is_array else "jq --compact-output"
        fix = f"{expected}; write one object per line, for example by `{command}`"
        return InputError(file, location, reason, fix)
    if isinstance(error, msgspec.ValidationError):
        hint = describe_text(bytes(data)[:START_SIZE], "JSON")
        return InputError(file, location, abbreviate(str(error), 200), f"{expected}{hint}")
    offset, reason, fix = describe_json_error(bytes(data), error)
    return InputError(file, f"{location}, byte {offset}", f"{reason}; {expected}", fix)


def quote_id(identifier: str) -> str:
    """Return an abbreviated id in quotes, with its invisible characters escaped."""
    visible = INVISIBLE.sub(lambda match: ascii(match[0])[1:-1], escape_unprintable(identifier))
    return f"'{abbreviate(visible)}'"


def is_invalid_id(identifier: str) -> bool:
    """Return whether an id is empty or contains whitespace or invisible characters."""
    if identifier.isascii() and identifier.isprintable() and " " not in identifier:
        return not identifier
    return (
        not identifier
        or not INVALID_CATEGORIES.isdisjoint(map(unicodedata.category, identifier))
        or INVISIBLE.search(identifier) is not None
    )
