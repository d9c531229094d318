"""Files that are whole or not there: written under a temporary name, synced, renamed."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from submission.errors import OutputError


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
    temporary = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    except OSError as error:
        try_remove(temporary)
        raise OutputError(f"{file}: cannot be written ({error.strerror}); free space or choose another directory") from None


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


def try_remove(file: Path) -> None:
    """Remove a file if that is possible."""
    try:
        file.unlink(missing_ok=True)
    except OSError:
        return


def sha256(file: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal. Raises OSError."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
