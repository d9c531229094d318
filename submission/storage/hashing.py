"""Hash files and combine hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from submission.errors import unreadable
from submission.storage.atomic_files import file_name, sha256


def fingerprint(hashes: Mapping[str, str]) -> str:
    """Return the hash of names with their hashes."""
    return hashlib.sha256("".join(f"{name} {value}\n" for name, value in hashes.items()).encode()).hexdigest()


def input_hashes(files: list[Path]) -> dict[str, str]:
    """Return the SHA-256 of input files by name.

    Raises:
        InputError: If one cannot be read.
    """
    try:
        return {file_name(file): sha256(file) for file in files}
    except OSError as error:
        raise unreadable(error) from None


def hashes_by_name(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the SHA-256 of input files by file name, or by key if file names repeat.

    Raises:
        InputError: If one cannot be read.
    """
    names = [file_name(file) for file in files.values()]
    hashes = [*map(_sha256, files.values())]
    return dict(zip(names if len({*names}) == len(names) else files, hashes, strict=True))


def _sha256(file: Path) -> str:
    [digest] = input_hashes([file]).values()
    return digest
