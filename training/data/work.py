"""The working directory of training: what was made there, by one process at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from submission.disk.files import make_directory
from submission.disk.kept import RECORD, Record, read_record
from submission.disk.locked import locked
from submission.errors import InputError


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold a working directory. Raises InputError: there is none. OutputError: another process works in it."""
    if not directory.is_dir():
        raise _nothing(directory)
    with locked(directory):
        yield


@contextmanager
def held_for(name: str, directory: Path) -> Iterator[None]:
    """Hold what is made of that name in a working directory, beside others that make something else of the same tables.

    Raises:
        As `held` does.
    """
    if not directory.is_dir():
        raise _nothing(directory)
    place = directory / "fit" / name
    make_directory(place)
    with locked(directory, shared=True), locked(place):
        yield


def made(directory: Path) -> Record:
    """Read the record of what `prepare pairs` or `prepare vectors` wrote into a directory.

    Raises:
        InputError: nothing, or the record is damaged.
    """
    record = read_record(directory / RECORD)
    if not record.files:
        raise _nothing(directory)
    return record


def _nothing(directory: Path) -> InputError:
    verb = f"`python -m training prepare pairs -i INPUT --work {directory}`"
    return InputError(f"{directory}: no working directory; {verb} makes it")


def write_text(text: str, file: Path) -> None:
    """Write text as UTF-8; the file comes last, as `Kept.make` gives it."""
    file.write_text(text, encoding="utf-8")


def hash_of(value: object) -> str:
    """A short hash of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
