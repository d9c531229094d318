"""Store files that are built once and rebuilt if their inputs change or they are damaged."""

from __future__ import annotations

import hashlib
import io
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import xxhash

from submission.errors import OutputError
from submission.storage.atomic_files import (
    leftovers,
    make_directory,
    open_regular,
    read_regular,
    temporary_name,
    try_remove,
    unwritable,
    write_whole,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

RECORD = "kept.json"
WHOLE = 100  # up to this many files the record is rewritten for each new one; beyond, entries are appended to a journal


class KeptFile(msgspec.Struct):
    """Key and XXH3 checksum (128 bits) of a file."""

    key: str
    xxh3: str


class Entry(msgspec.Struct):
    """Line of a journal."""

    name: str
    file: KeptFile


class Record(msgspec.Struct):
    """Inputs of a directory's files, and each file by name."""

    decided_by: dict[str, Any] = msgspec.field(default_factory=dict)
    files: dict[str, KeptFile] = msgspec.field(default_factory=dict)


class Kept:
    """Directory of built files with a record; a file without an entry counts as missing.

    With more than WHOLE files, new entries are appended to a journal, which is merged into the record from time to time.
    """

    def __init__(
        self,
        directory: Path,
        decided_by: Mapping[str, Any],
        overwrite: bool = False,
        record: str = RECORD,
        names: Iterable[str] = (),
    ) -> None:
        """Reuse existing files or start empty.

        Args:
            directory: Directory; created if missing.
            decided_by: Cache key of all files, JSON-serialisable.
            overwrite: Replace files of other inputs; they are removed when the first new file is written.
            record: File name of the record.
            names: Files to be written. Without a record, existing files of these names count as foreign.

        Raises:
            OutputError: If the directory cannot be created, or has other files and overwrite is false.
        """
        make_directory(directory)
        self.directory, self._file = directory, directory / record
        previous = read_record(self._file)
        names = {*names, *previous.files}
        existing = sorted(names & {file.name for file in directory.iterdir()})
        changed = [name for name, value in decided_by.items() if previous.decided_by.get(name) != value]
        if existing and changed and not overwrite:
            origin = f"made from another {' and '.join(changed)}" if previous.files else "of unknown origin"
            advice = "choose another directory or use --overwrite"
            raise OutputError(f"{directory}: contains files {origin} ({', '.join(existing)}); {advice}")
        self._left = leftovers(directory)  # listed once, so that the cost of a write does not grow with the number of files
        for name in {*names, record}:
            self._clear(name)
        self._stale = existing if changed else []
        self._journal = _journal(self._file)
        # The first update merges an existing journal into the record.
        self._appended = len(previous.files) if self._journal.exists() else 0
        self._record = Record(dict(decided_by), {} if changed else previous.files)

    def __contains__(self, name: str) -> bool:
        """Return whether the record has a file."""
        return name in self._record.files

    def key(self, name: str) -> str | None:
        """Return the key of a file; None if missing or damaged."""
        return self._record.files[name].key if self._sound(name, file_hash, str) else None

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file; None if missing or damaged."""
        return self._sound(name, read_regular, xxhash.xxh3_128_hexdigest)

    def write(self, name: str, content: bytes | str, key: str = "") -> None:
        """Write a file atomically.

        Raises:
            OutputError: If that fails; an older file remains.
        """
        self._make([name], lambda file: file.write_bytes(content.encode() if isinstance(content, str) else content), key)

    def enter(self, name: str, xxh3: str) -> None:
        """Register a file written by another process, with its checksum.

        Raises:
            OutputError: If that fails.
        """
        try:
            self._clear(name)
            self._enter(name, KeptFile("", xxh3))
        except OSError as error:
            raise unwritable(self.directory, error) from None

    def content(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return the bytes of a file; build it if missing or damaged.

        Raises:
            OutputError: As `write` does.
        """
        data = self.read(name)
        if data is None:
            data = make()
            self.write(name, data)
        return data

    def array(self, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the array of a .npy file; build it if missing or damaged.

        Raises:
            OutputError: As `write` does.
        """
        return array_of(self.content(name, lambda: npy(make())))

    def make(self, names: Sequence[str], write: Callable[..., object]) -> list[Path]:
        """Return the paths of files that are built together; `write` receives a temporary path for each.

        Raises:
            OutputError: As `write` does.
        """
        if not all(self.key(name) is not None for name in names):
            self._make(names, write, "")
        return [self.directory / name for name in names]

    def _make(self, names: Sequence[str], write: Callable[..., object], key: str) -> None:
        """Write files under temporary names, update the record, rename.

        If killed in between, the checksum differs and the file is rebuilt; if writing fails, nothing changes.
        """
        for name in names:
            self._clear(name)
        temporary = [temporary_name(self.directory / name) for name in names]
        try:
            write(*temporary)
            for file, name in zip(temporary, names, strict=True):
                with file.open("rb") as stream:
                    os.fsync(stream.fileno())
                self._enter(name, KeptFile(key, file_hash(file)))
                file.replace(self.directory / name)
        except OSError as error:
            raise unwritable(self.directory, error) from None
        finally:
            for file in temporary:
                try_remove(file)

    def _clear(self, name: str) -> None:
        """Remove temporary files of killed processes for a name."""
        for path in self._left.pop(name, []):
            try_remove(path)

    def _sound(self, name: str, read: Callable[[Path], T], hash_of: Callable[[T], str]) -> T | None:
        """Read a file of the record; None if missing or damaged."""
        if name not in self._record.files:
            return None
        try:
            value = read(self.directory / name)
            if hash_of(value) == self._record.files[name].xxh3:
                return value
        except FileNotFoundError:
            return None
        except OSError:  # not a readable regular file
            pass
        log.warning("%s: checksum mismatch, rebuilding", self.directory / name)
        return None

    def _enter(self, name: str, file: KeptFile) -> None:
        """Add an entry: rewrite the record or append to the journal, so that n files cost O(n)."""
        if self._stale:
            try_remove(self._journal)
            for outdated in self._stale:
                try_remove(self.directory / outdated)
        self._stale = []
        self._record.files[name] = file
        entry_count, journal_length = len(self._record.files), self._appended
        if entry_count > max(WHOLE, 2 * journal_length):
            self._appended = entry_count  # if appending fails, the next update rewrites the record
            _append(self._journal, Entry(name, file))
            self._appended = journal_length + 1
        else:
            write_whole(self._file, msgspec.json.format(msgspec.json.encode(self._record, order="sorted"), indent=1) + b"\n")
            try_remove(self._journal)
            self._appended = 0


def written(file: Path, content: bytes) -> str:
    """Write a file for another process to register; return its checksum.

    Raises:
        OutputError: If writing fails.
    """
    write_whole(file, content)
    return xxhash.xxh3_128_hexdigest(content)


def append(file: Path, content: bytes) -> None:
    """Write a file and register it in the journal of its directory, to which several processes may append at a time.

    Raises:
        OutputError: If writing fails.
    """
    xxh3 = written(file, content)
    try:
        _append(_journal(file.with_name(RECORD)), Entry(file.name, KeptFile("", xxh3)))
    except OSError as error:
        raise unwritable(file, error) from None


def _append(journal: Path, entry: Entry) -> None:
    """Append a line; it begins with a line break, so that what a killed process has left of another one stays apart."""
    with journal.open("ab", buffering=0) as stream:
        stream.write(b"\n" + msgspec.json.encode(entry) + b"\n")
        os.fsync(stream.fileno())


def _journal(record: Path) -> Path:
    return record.with_name(f"{record.name}.journal")


def read_record(file: Path) -> Record:
    """Read a record and its journal; return an empty one if missing or damaged."""
    try:
        record = msgspec.json.decode(_content(file) or b"{}", type=Record)
        *lines, _ = _content(_journal(file)).split(b"\n")  # without an incomplete last line
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        log.warning("%s: damaged, rebuilding the files of its directory", file)
        return Record()
    for line in filter(None, lines):
        try:
            entry = msgspec.json.decode(line, type=Entry)
            record.files[entry.name] = entry.file
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            log.warning("%s: damaged entry, rebuilding its file", _journal(file))
    return record


def _content(file: Path) -> bytes:
    return read_regular(file) if file.exists() else b""


def file_hash(file: Path) -> str:
    """Return the XXH3 checksum (128 bits) of a file.

    Raises:
        OSError: If it cannot be read.
    """
    with open_regular(file) as stream:
        return hashlib.file_digest(stream, xxhash.xxh3_128).hexdigest()  # type: ignore[arg-type]  # as in `sha256`


def npy(array: np.ndarray) -> bytes:
    """Serialise an array in .npy format."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def array_of(content: bytes) -> np.ndarray:
    """Deserialise an array in .npy format."""
    array: np.ndarray = np.load(io.BytesIO(content), allow_pickle=False)
    return array
