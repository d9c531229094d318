"""Hash files and combine hashes."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from aragorn.errors import build_unreadable_input_error
from aragorn.storage.archives import open_file
from aragorn.storage.atomic_files import get_printable_name


def combine_hashes(hashes: Mapping[str, str]) -> str:
    """Return the SHA-256 of named hashes, which depends on their order."""
    return hashlib.sha256(
        "".join(f"{name} {value}\n" for name, value in hashes.items()).encode()
    ).hexdigest()


def hash_input_files(files: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 of input files by file name, followed by the position if an earlier file
    has the same name; raise InputError if a file is unreadable."""
    try:
        hashes: dict[str, str] = {}
        for position, file in enumerate(files, 1):
            name = get_printable_name(file)
            key = f"{name} ({position})" if name in hashes else name
            with open_file(file) as stream:
                hashes[key] = hashlib.file_digest(stream, "sha256").hexdigest()
        return hashes
    except OSError as error:
        raise build_unreadable_input_error(error) from None


def hash_named_files(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the SHA-256 of input files by file name, or by the keys of `files` if file names are
    not unique."""
    names = [get_printable_name(file) for file in files.values()]
    hashes = [
        hash_input_files([file])[name] for file, name in zip(files.values(), names, strict=True)
    ]
    return dict(zip(names if len({*names}) == len(names) else files, hashes, strict=True))
