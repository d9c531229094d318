"""Files that are whole or not there: written under a temporary name, synced, renamed."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import BinaryIO

from submission.errors import OutputError

LEFT = re.compile(r"\.(.+)\.[0-9]+\.part")
KINDS = {
    "a directory": stat.S_ISDIR, "a FIFO": stat.S_ISFIFO, "a device": stat.S_ISCHR, "a block device": stat.S_ISBLK,
}  # fmt: skip


def make_directory(directory: Path) -> None:
    """Make a directory and its parents where they are not there. Raises OutputError."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{directory}: not a directory to write to ({error.strerror}); choose another") from None


def write_whole(file: Path, content: str | bytes) -> None:
    """Write a file so that at any moment it has its old content or all of the new one.

    Raises:
        OutputError: the disk is full, the directory cannot be written; the old content is still there.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    temporary = temporary_name(file)
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    except OSError as error:
        try_remove(temporary)
        raise OutputError(f"{file}: cannot be written ({error.strerror}); free space or choose another directory") from None


def file_name(file: Path) -> str:
    """A file's name as text: what is not UTF-8 in it escaped."""
    return os.fsencode(file.name).decode("utf-8", "backslashreplace")


def temporary_name(file: Path) -> Path:
    """Where a file is written before it gets its name."""
    return file.with_name(f".{file.name}.{os.getpid()}.part")


def leftovers(directory: Path) -> dict[str, list[Path]]:
    """List what killed processes left half-written in a directory, by the name of the file that it was to become."""
    found: dict[str, list[Path]] = {}
    for path in directory.iterdir():
        if match := LEFT.fullmatch(path.name):
            found.setdefault(match[1], []).append(path)
    return found


def remove_leftovers(directory: Path, names: Collection[str] | None = None) -> None:
    """Remove what killed processes left half-written in a directory, of files of some names or of all."""
    for name, paths in leftovers(directory).items():
        if names is None or name in names:
            for path in paths:
                try_remove(path)


def write_directory(directory: Path, contents: Mapping[str, bytes]) -> None:
    """Write a directory of files so that an older one in its place stays whole until the new one is complete.

    Raises:
        OutputError: it cannot be written; the older one is still there.
    """
    new, old = (directory.with_name(f".{directory.name}.{end}") for end in ("new", "old"))
    try:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        for name, content in contents.items():
            write_whole(new / name, content)
        if directory.exists():
            shutil.rmtree(old, ignore_errors=True)
            directory.replace(old)
        new.replace(directory)
    except OSError as error:
        raise OutputError(f"{directory}: cannot be written ({error.strerror}); free space or choose another one") from None
    finally:
        shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def restore_directory(directory: Path) -> None:
    """Put back the older directory where write_directory was killed between its two renamings."""
    old = directory.with_name(f".{directory.name}.old")
    if old.exists() and not directory.exists():
        old.replace(directory)


def open_regular(file: Path) -> BinaryIO:
    """Open a file for reading. Raises OSError: that cannot be done, or it is none (a FIFO would let us wait for ever)."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    kind = next((name for name, is_that in KINDS.items() if is_that(mode)), "no regular file")
    raise OSError(errno.EINVAL, f"{kind}; expected a regular file", str(file))


def read_regular(file: Path) -> bytes:
    """The bytes of a regular file. Raises OSError as `open_regular` does."""
    with open_regular(file) as stream:
        return stream.read()


def try_remove(file: Path) -> None:
    """Remove a file if that is possible."""
    try:
        file.unlink(missing_ok=True)
    except OSError:
        return


def sha256(file: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal. Raises OSError."""
    with open_regular(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]  # typeshed asks for less than BinaryIO
