"""Hash input files: what decides whether earlier results may be used."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from submission.disk.files import file_name, sha256
from submission.errors import unreadable


def fingerprint(hashes: Mapping[str, str]) -> str:
    """The hash of names and hashes."""
    return hashlib.sha256("".join(f"{name} {value}\n" for name, value in hashes.items()).encode()).hexdigest()


def input_hashes(files: list[Path]) -> dict[str, str]:
    """The SHA-256 of input files by their names. Raises InputError where one cannot be read."""
    try:
        return {file_name(file): sha256(file) for file in files}
    except OSError as error:
        raise unreadable(error) from None


def hashes_by_name(files: Mapping[str, Path]) -> dict[str, str]:
    """The SHA-256 of input files by their own names or, where two have the same, by those given. Raises InputError."""
    own = [file_name(file) for file in files.values()]
    hashes = [*map(_sha256, files.values())]
    return dict(zip(own if len({*own}) == len(own) else files, hashes, strict=True))


def _sha256(file: Path) -> str:
    [found] = input_hashes([file]).values()
    return found
