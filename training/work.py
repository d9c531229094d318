"""The working directory of training: what is finished there, from which input and settings."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from submission.errors import InputError, OutputError
from submission.files import make_directory, sha256, try_remove, write_whole

log = logging.getLogger(__name__)

RECORD = "work.json"


class Work:
    """Files that are made once, whole, and not again while what they are made from stays the same."""

    def __init__(self, directory: Path, fingerprint: Mapping[str, Any], overwrite: bool = False) -> None:
        """Open a working directory.

        Raises:
            OutputError: it cannot be written, or holds the files of another fingerprint and overwrite is false.
        """
        self.directory = directory
        make_directory(directory)
        record = read_record(directory) if (directory / RECORD).exists() else {}
        differing = [key for key in fingerprint if record.get("fingerprint", {}).get(key) != fingerprint[key]]
        if record.get("files") and differing and not overwrite:
            raise OutputError(
                f"{directory}: holds files made with another {' and '.join(differing)}; choose another or give --overwrite"
            )
        if differing or not record:
            for name in record.get("files", {}):
                try_remove(directory / name)
            record = {"fingerprint": dict(fingerprint), "files": {}}
        self._record = record

    def make(self, name: str, write: Callable[[Path], None]) -> None:
        """Make a file unless it is there: `write` gets a temporary path. Raises OutputError."""
        file = self.directory / name
        if name in self._record["files"] and file.exists() and sha256(file) == self._record["files"][name]:
            log.info("%s: already there", file)
            return
        temporary = file.with_name(f".{name}.part")
        try:
            write(temporary)
            temporary.replace(file)
        except OSError as error:
            try_remove(temporary)
            raise OutputError(f"{file}: cannot be written ({error.strerror}); free space or choose another place") from None
        self._record["files"][name] = sha256(file)
        write_whole(self.directory / RECORD, json.dumps(self._record, indent=1, sort_keys=True) + "\n")


def read_record(directory: Path) -> dict[str, Any]:
    """The record of a working directory: `fingerprint` and `files` with their hashes.

    Raises:
        InputError: there is none, or it is damaged.
    """
    try:
        record: dict[str, Any] = json.loads((directory / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(
            f"{directory}: no working directory; `python -m training prepare -i INPUT -o {directory}` makes it"
        ) from None
    return record


def write_text(text: str, file: Path) -> None:
    """Write text as UTF-8; the file comes last so that Work.make can give it."""
    file.write_text(text, encoding="utf-8")


def hash_of(value: object) -> str:
    """A short hash of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
