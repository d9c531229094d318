"""Write files with a record of their inputs and checksums, so that none is mistaken for a file of
other inputs: the runs of `rank` in fingerprint.json, the tables of `prepare` in manifest.json."""

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import xxhash

from aragorn.errors import OutputError, abbreviate_list, pluralise
from aragorn.storage.atomic_files import (
    build_unwritable_error,
    create_directory,
    find_temporary_files,
    get_temporary_path,
    open_regular,
    read_regular,
    remove_if_possible,
    replace_atomic,
)

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
DECODING_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class RecordEntry(msgspec.Struct):
    """Entry of a file, by which it is recognised as damaged or outdated."""

    key: str
    xxh3: str  # checksum (128 bits)


class Record(msgspec.Struct):
    """Inputs that the files of a directory were built from, and an entry for each file."""

    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    files: dict[str, RecordEntry] = msgspec.field(default_factory=dict)  # by file name


class RecordedFiles:
    """Files of a directory that were built from the same inputs; a file without an entry counts as
    missing."""

    def __init__(
        self,
        directory: Path,
        inputs: Mapping[str, Any],
        overwrite: bool = False,
        record_name: str = MANIFEST,
        expected_names: Iterable[str] = (),
    ) -> None:
        """Open a directory, reusing the files that were built from the same inputs.

        Args:
            directory: Directory of the files; created if missing.
            inputs: Inputs of all files, JSON-serialisable.
            overwrite: Whether to replace files built from other inputs; they are removed when the
                first new file is written.
            record_name: File name of the record.
            expected_names: Names of the files to be written; existing ones without an entry are
                foreign, as is a record without the names of `inputs`.

        Raises:
            OutputError: If `overwrite` is false and the directory contains files built from other
                inputs or foreign files.
        """
        create_directory(directory)
        self.directory = directory
        self._record_file = directory / record_name
        self._stale_files = find_temporary_files(directory)
        previous = read_record(self._record_file)
        names = {*expected_names, *previous.files}
        if not previous.inputs.keys() >= inputs.keys():
            names.add(record_name)  # of another program or damaged, if it exists
        existing_names = sorted(names & {file.name for file in directory.iterdir()})
        changed = [name for name, value in inputs.items() if previous.inputs.get(name) != value]
        foreign_names = [name for name in existing_names if name not in previous.files]
        refused_names = existing_names if changed else foreign_names
        if refused_names and not overwrite:
            origin = f"made with another {' and '.join(changed)}"
            cause = origin if changed and previous.files else "of unknown origin"
            count = f"{pluralise(len(refused_names), 'file')} {cause}"
            advice = "choose another directory, or use --overwrite, which removes them"
            raise OutputError(
                f"{directory}: contains {count} ({abbreviate_list(refused_names)}); {advice}"
            )
        for name in {*names, record_name}:
            self._remove_stale(name)
        self._outdated_names = existing_names if changed else []
        self._record = Record(dict(inputs), {} if changed else previous.files)

    def __contains__(self, name: str) -> bool:
        """Return whether the record has an entry for a file."""
        return name in self._record.files

    def get_valid_key(self, name: str) -> str | None:
        """Return the key that a file was written with; None if it is missing or, with a warning,
        damaged."""
        if name not in self._record.files:
            return None
        try:
            if compute_xxh3(self.directory / name) == self._record.files[name].xxh3:
                return self._record.files[name].key
            cause = "checksum mismatch"
        except FileNotFoundError:
            return None
        except OSError as error:  # not a readable regular file
            cause = str(error.strerror)
        log.warning("%s: %s; rebuilding the file", self.directory / name, cause)
        return None

    def write(self, name: str, content: bytes | str, key: str = "") -> None:
        """Write a file atomically, with the key that `get_valid_key` returns."""
        data = content.encode() if isinstance(content, str) else content
        self._write_files([name], lambda file: file.write_bytes(data), key)

    def build(self, names: Sequence[str], write: Callable[..., object]) -> None:
        """Write files together if one of them is missing or damaged: `write` receives a temporary
        path per file."""
        if any(self.get_valid_key(name) is None for name in names):
            self._write_files(names, write, "")

    def _write_files(self, names: Sequence[str], write: Callable[..., object], key: str) -> None:
        """Write files under temporary names, record them, and rename them.

        An interruption between the last two steps leaves a checksum mismatch, so that the file is
        rebuilt.
        """
        for name in names:
            self._remove_stale(name)
        temporary_files = [get_temporary_path(self.directory / name) for name in names]
        try:
            write(*temporary_files)
            for file, name in zip(temporary_files, names, strict=True):
                with file.open("rb") as stream:
                    os.fsync(stream.fileno())
                self._add_entry(name, RecordEntry(key, compute_xxh3(file)))
                file.replace(self.directory / name)
        except OSError as error:
            raise build_unwritable_error(self.directory, error) from None
        finally:
            for file in temporary_files:
                remove_if_possible(file)

    def _add_entry(self, name: str, entry: RecordEntry) -> None:
        if self._outdated_names:
            outdated = ", ".join(self._outdated_names)
            log.info("%s: removing outdated files: %s", self.directory, outdated)
            for outdated_name in self._outdated_names:
                remove_if_possible(self.directory / outdated_name)
        self._outdated_names = []
        self._record.files[name] = entry
        content = msgspec.json.encode(self._record, order="sorted")
        replace_atomic(self._record_file, msgspec.json.format(content, indent=1) + b"\n")

    def _remove_stale(self, name: str) -> None:
        """Remove the temporary files that killed processes left for a file."""
        for path in self._stale_files.pop(name, []):
            remove_if_possible(path)


def read_record(file: Path) -> Record:
    """Read a record; return an empty one if it is missing or, with a warning, damaged."""
    try:
        return msgspec.json.decode(read_regular(file) if file.exists() else b"{}", type=Record)
    except (OSError, *DECODING_ERRORS) as error:
        message = "%s: damaged (%s); the origin of all files of this directory is unknown"
        log.warning(message, file, error)
        return Record()


def compute_xxh3(file: Path) -> str:
    """Compute the checksum of a regular file; raise OSError if it is none."""
    with open_regular(file) as stream:
        return hashlib.file_digest(stream, xxhash.xxh3_128).hexdigest()
