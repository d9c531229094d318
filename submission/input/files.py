"""Input files: listed and read whatever they are, so that all that can be wrong with one is an InputError that names it."""

from __future__ import annotations

import gzip
import mmap
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar

from submission.disk.files import open_regular
from submission.errors import InputError, short, unreadable

T = TypeVar("T")
TOGETHER = 1 << 14  # items of a part
BOM = b"\xef\xbb\xbf"
PART = 1 << 24  # bytes unpacked at a time
UNPACKED, FREE = 200, 1 << 26  # a .gz may unpack to so many times its size, and to so many bytes in any case
LONGEST_LINE = 1 << 28  # bytes
SHORTEST_LINE = 32  # what a line counts at least against that bound: a bomb of blank ones takes time, not memory
# Blanks, control characters, and others that cannot be seen: they would break a run's lines, or what shows them.
UNFIT = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def named(directory: Path, *patterns: str) -> list[Path]:
    """List the files of an input directory whose names match a pattern, sorted.

    Raises:
        InputError: the directory is not there, or may not be listed.
    """
    try:
        names = [path.name for path in directory.iterdir()]
    except FileNotFoundError:
        raise InputError(
            f"{directory}: no such input directory; expected one with topics*.xml and the args.me JSON files"
        ) from None
    except OSError as error:
        raise unreadable(error) from None
    return sorted(directory / name for name in names if any(fnmatch(name, pattern) for pattern in patterns))


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Whatever reading a file raises becomes an InputError that names it."""
    try:
        yield
    except InputError:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{file}: damaged gzip file ({error}); copy it again") from None
    except OSError as error:
        raise unreadable(error) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{file}, byte {error.start}: not UTF-8; expected a UTF-8 file") from None
    except RecursionError:
        raise InputError(f"{file}: nested too deeply; copy the file again") from None
    except MemoryError:
        raise InputError(f"{file}: larger than the memory of this machine; give it more, or a smaller file") from None
    except ValueError as error:
        raise InputError(f"{file}: malformed ({short(str(error))}); copy the file again") from None


def content(file: Path) -> bytes | bytearray | mmap.mmap:
    """The bytes of a file, of a .gz those that are packed in it; mapped if possible: to copy a gigabyte takes a third of the
    time to decode it.

    Raises:
        InputError: it cannot be read.
    """
    with reading(file), open_regular(file) as stream:
        if file.suffix == ".gz":
            return _unpacked(file, stream)
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if os.fstat(stream.fileno()).st_size else b""


def text(file: Path) -> str:
    """The text of a file, plain or .gz, without a byte order mark. Raises InputError: it cannot be read, or is not UTF-8."""
    with reading(file):
        return bytes(content(file)).decode("utf-8-sig")


def lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file, plain or .gz, that are not blank, with their numbers; without a byte order mark.

    Raises:
        InputError: it cannot be read, or a line is longer than any in such a file.
    """
    with reading(file), open_regular(file) as stream:
        left = FREE + UNPACKED * os.fstat(stream.fileno()).st_size
        with gzip.open(stream) if file.suffix == ".gz" else stream as plain:
            number = 0
            while line := plain.readline(LONGEST_LINE):
                number, left = number + 1, left - max(len(line), SHORTEST_LINE)
                if left < 0 or len(line) == LONGEST_LINE:
                    raise _too_large(f"{file}, line {number}")
                line = line.removeprefix(BOM) if number == 1 else line
                if line.strip():
                    yield number, line


def parts_of(items: Iterable[T]) -> Iterator[list[T]]:
    """Items in lists of so many that the frames made of them cost little, and few of them are in memory."""
    left = iter(items)
    while part := list(islice(left, TOGETHER)):
        yield part


def unfit(identifier: str) -> bool:
    """Tell whether an id cannot stand in a run: it is empty, or has blanks or invisible characters."""
    if identifier.isascii() and identifier.isprintable() and " " not in identifier:
        return not identifier
    return not identifier or UNFIT.search(identifier) is not None


def _unpacked(file: Path, stream: BinaryIO) -> bytearray:
    """Unpack a .gz up to a bounded size: a megabyte of zeros is packed in a thousand bytes."""
    most = FREE + UNPACKED * os.fstat(stream.fileno()).st_size
    found = bytearray()
    with gzip.open(stream) as plain:
        while part := plain.read(PART):
            found += part
            if len(found) > most:
                raise _too_large(str(file))
    return found


def _too_large(place: str) -> InputError:
    return InputError(
        f"{place}: unpacks to far more than a corpus or a list is, as a decompression bomb does; copy the file again"
    )
