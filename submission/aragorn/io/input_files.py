"""Find and read input files; every failure raises an InputError that names the file."""

import gzip
import mmap
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from functools import wraps
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from zipfile import ZipExtFile

from aragorn.errors import (
    InputError,
    abbreviate,
    abbreviate_list,
    as_memory_errors,
    build_unreadable_input_error,
)
from aragorn.storage.archives import find_archive, is_archive, list_members, open_file

T = TypeVar("T")
BATCH_SIZE = 1 << 14
BOM = b"\xef\xbb\xbf"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
CHUNK_BYTES = 1 << 24  # bytes decompressed at a time
# decompression limit: MAX_EXPANSION × compressed size + EXTRA_BYTES
MAX_EXPANSION, EXTRA_BYTES = 200, 1 << 26
MAX_LINE_BYTES = 1 << 28
# minimum number of bytes counted per line, so that many blank lines also exceed the limit
MIN_LINE_COST = 32
# Whitespace, control and invisible characters, which would corrupt run files or their display.
INVALID_ID_CHARACTERS = re.compile(
    r"[\s\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)
ID_RULE = "ids must be non-empty, without whitespace or invisible characters"


def find_files(paths: Sequence[Path], *patterns: str) -> list[Path]:
    """Return the files of directories, archives (with all folders) and files whose names match a
    glob pattern, sorted by name.

    A pattern also matches names followed by .gz.
    """
    files = [file for path in paths for file in _list_files(path)]
    matches = [
        file
        for file in files
        if any(fnmatch(file.name.removesuffix(".gz"), pattern) for pattern in patterns)
    ]
    return sorted(matches, key=lambda file: (file.name, file))


def _list_files(path: Path) -> list[Path]:
    """Return the files of a directory or zip archive, or the path itself if it is another file."""
    try:
        if path.is_dir():
            return list(path.iterdir())
        return list_members(path) if is_archive(path) else [path]
    except FileNotFoundError:
        expected = "expected topics*.xml and args.me JSON, or a TIREx data set, as directory, zip archive or files"
        raise InputError(f"{path}: input not found; {expected}") from None
    except OSError as error:
        raise build_unreadable_input_error(error) from None


def describe_missing(paths: Sequence[Path], kind: str) -> str:
    """Return a message that an input has no file of a kind, with the names of at most five of its
    files."""
    names = abbreviate_list([file.name for file in find_files(paths, "*")]) or "no files"
    return f"{', '.join(map(str, paths))}: no {kind} found among {names}"


@contextmanager
def as_input_errors(file: Path) -> Iterator[None]:
    """Convert exceptions of a `with` block that reads `file` to InputErrors that name it."""
    try:
        with as_memory_errors(file):
            yield
    except InputError:
        raise
    except gzip.BadGzipFile as error:
        raise InputError(
            f"{file}: no gzip file ({error}); remove .gz from its name, or copy it again if damaged"
        ) from None
    except (EOFError, zlib.error) as error:
        raise InputError(f"{file}: damaged gzip file ({error}); copy the file again") from None
    except OSError as error:
        raise build_unreadable_input_error(error) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8 at byte {error.start}; convert it to UTF-8") from None
    except RecursionError:
        raise InputError(
            f"{file}: JSON nested too deeply; replace it with the original file"
        ) from None
    except ValueError as error:
        raise InputError(
            f"{file}: malformed ({abbreviate(str(error))}); correct the file or copy it again"
        ) from None


def yield_input_errors(
    read: Callable[..., Iterator[T | InputError]],
) -> Callable[..., Iterator[T | InputError]]:
    """Decorate a generator of a file's records so that, if reading fails, its last item is an
    InputError."""

    @wraps(read)
    def iter_records(file: Path, *args: Any) -> Iterator[T | InputError]:
        try:
            with as_input_errors(file):
                yield from read(file, *args)
        except InputError as error:
            yield error

    return iter_records


def raise_on_error(records: Iterable[T | InputError]) -> Iterator[T]:
    """Yield records up to the first error, and raise that."""
    for record in records:
        if isinstance(record, InputError):
            raise record
        yield record


def collect(records: Iterable[T | InputError]) -> tuple[list[T], list[str]]:
    """Return the valid records, and the messages of all errors."""
    valid_records: list[T] = []
    issues = []
    for record in records:
        if isinstance(record, InputError):
            issues.append(str(record))
        else:
            valid_records.append(record)
    return valid_records, issues


def raise_first(issues: list[str]) -> None:
    """Raise InputError with the first issue, if any."""
    if issues:
        raise InputError(issues[0])


def read_bytes(file: Path) -> bytes | bytearray | mmap.mmap:
    """Return the decompressed content of a file; memory-map plain files, because copying adds a
    third to decoding time."""
    with (
        as_input_errors(file),
        open_file(file) as file_stream,
        _decompress(file, file_stream) as stream,
    ):
        if isinstance(stream, BufferedReader):
            return (
                mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
                if os.fstat(stream.fileno()).st_size
                else b""
            )
        limit, data = _compute_decompression_limit(file), bytearray()
        while chunk := stream.read(CHUNK_BYTES):
            data += chunk
            if len(data) > limit:
                raise _build_expansion_error(file, limit)
        return data


def read_json_bytes(file: Path) -> bytes | bytearray | mmap.mmap:
    """Return the undecoded content of a JSON file without byte order mark; it is copied only if
    there is one to strip."""
    data = read_bytes(file)
    return data[len(BOM) :] if data[: len(BOM)] == BOM else data


def read_text(file: Path) -> str:
    """Return the text of a UTF-8 file, plain or gzipped, without byte order mark."""
    with as_input_errors(file):
        data = bytes(read_bytes(file))
        if b"\0" in data and not data.startswith(UTF16_BOMS):
            raise InputError(
                f"{file}: has null characters and thus is no text file; use a text file, or unpack the archive"
            )
        return data.decode("utf-8-sig")


def iter_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number (from 1) and bytes of each non-blank line of a file, plain or gzipped, without
    byte order mark."""
    with as_input_errors(file), open_file(file) as file_stream:
        remaining_bytes = limit = _compute_decompression_limit(file)
        with _decompress(file, file_stream) as stream:
            for line_number, line in enumerate(
                iter(lambda: stream.readline(MAX_LINE_BYTES), b""), 1
            ):
                remaining_bytes -= max(len(line), MIN_LINE_COST)
                if remaining_bytes < 0:
                    raise _build_expansion_error(file, limit)
                if len(line) == MAX_LINE_BYTES:
                    raise InputError(
                        f"{file}, line {line_number}: at least {MAX_LINE_BYTES:,} bytes long; split or shorten it"
                    )
                text = line.removeprefix(BOM) if line_number == 1 else line
                if text.strip():
                    yield line_number, text


def batched(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield lists of at most BATCH_SIZE items."""
    iterator = iter(items)
    while batch := list(islice(iterator, BATCH_SIZE)):
        yield batch


def is_invalid_id(identifier: str) -> bool:
    """Return whether an id is empty or contains whitespace or invisible characters."""
    if identifier.isascii() and identifier.isprintable() and " " not in identifier:
        return not identifier
    return not identifier or INVALID_ID_CHARACTERS.search(identifier) is not None


def _decompress(
    file: Path, stream: BufferedReader | ZipExtFile
) -> BufferedReader | ZipExtFile | gzip.GzipFile:
    """Return a stream of a file's decompressed content if its name or first bytes are those of a
    gzip file."""
    return (
        gzip.open(stream) if file.suffix == ".gz" or stream.peek(2)[:2] == b"\x1f\x8b" else stream
    )


def _compute_decompression_limit(file: Path) -> int:
    return EXTRA_BYTES + MAX_EXPANSION * (find_archive(file) or file).stat().st_size


def _build_expansion_error(file: Path, limit: int) -> InputError:
    cause = f"expands to more than {limit:,} bytes (decompression bomb?)"
    return InputError(f"{file}: {cause}; if the file is genuine, decompress it first")
