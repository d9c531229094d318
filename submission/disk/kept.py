"""Files that are made once, and made again when what decides them changes or their bytes are damaged."""

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

from submission.disk.files import (
    leftovers,
    make_directory,
    open_regular,
    read_regular,
    temporary_name,
    try_remove,
    write_whole,
)
from submission.errors import OutputError

log = logging.getLogger(__name__)

T = TypeVar("T")

RECORD = "kept.json"
WHOLE = 100  # files up to which a record is rewritten with each new one; beyond, entries are appended to its journal


class KeptFile(msgspec.Struct):
    """A file in a record: what decides it alone, and the XXH3 (128 bits) of its bytes."""

    key: str
    xxh3: str


class Entry(msgspec.Struct):
    """A line of a journal."""

    name: str
    file: KeptFile


class Record(msgspec.Struct):
    """The record of a directory: the key of all its files, and each file by its name."""

    decided_by: dict[str, Any] = msgspec.field(default_factory=dict)
    files: dict[str, KeptFile] = msgspec.field(default_factory=dict)


class Kept:
    """A directory of such files, with a record beside them. A file without an entry in the record counts as absent.

    With more than WHOLE files, new entries are appended to a journal beside the record, and merged into it now and then.
    """

    def __init__(
        self,
        directory: Path,
        decided_by: Mapping[str, Any],
        overwrite: bool = False,
        record: str = RECORD,
        names: Iterable[str] = (),
    ) -> None:
        """Resume from existing files or start fresh.

        Args:
            directory: made where it is not there.
            decided_by: what decides all files; JSON can hold it.
            overwrite: replace files that something else decided: they are removed when the first new one comes.
            record: the name of the record's file.
            names: files that are going to be written; without a record, what is there under these names is somebody else's.

        Raises:
            OutputError: the directory cannot be made, or holds other files and overwrite is false.
        """
        make_directory(directory)
        self.directory, self._file = directory, directory / record
        old = read_record(self._file)
        names = {*names, *old.files}
        found = sorted(names & {file.name for file in directory.iterdir()})
        differing = [name for name, value in decided_by.items() if old.decided_by.get(name) != value]
        if found and differing and not overwrite:
            other = f"another {' and '.join(differing)}" if old.files else "unknown origin"
            raise OutputError(f"{directory}: holds files of {other} ({', '.join(found)}); choose another or give --overwrite")
        self._left = leftovers(directory)  # listed once, so that the time to write a file does not grow with their number
        for name in {*names, record}:
            self._clear(name)
        self._stale = found if differing else []
        self._journal = _journal(self._file)
        # A journal that was found is merged into the record by the first entry.
        self._appended = len(old.files) if self._journal.exists() else 0
        self._record = Record(dict(decided_by), {} if differing else old.files)

    def __contains__(self, name: str) -> bool:
        """Whether the record has a file of that name."""
        return name in self._record.files

    def key(self, name: str) -> str | None:
        """Return the key of a file; None where the file is missing or damaged."""
        return self._record.files[name].key if self._sound(name, file_hash, str) else None

    def write(self, name: str, content: bytes | str, key: str = "") -> None:
        """Write a file as a whole. Raises OutputError: that cannot be done; an older one is still there."""
        self._make([name], lambda file: file.write_bytes(content.encode() if isinstance(content, str) else content), key)

    def enter(self, name: str, xxh3: str) -> None:
        """Enter a file that another process has written here, by the hash that it gave. Raises OutputError."""
        try:
            self._clear(name)
            self._enter(name, KeptFile("", xxh3))
        except OSError as error:
            raise self._unwritable(error) from None

    def content(self, name: str, make: Callable[[], bytes]) -> bytes:
        """The bytes of a file, made unless it is there. Raises OutputError as `write` does."""
        data = self._sound(name, read_regular, xxhash.xxh3_128_hexdigest)
        if data is not None:
            return data
        data = make()
        self.write(name, data)
        return data

    def array(self, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        """The array in a .npy file, made unless it is there. Raises OutputError as `write` does."""
        return array_of(self.content(name, lambda: npy(make())))

    def make(self, names: Sequence[str], write: Callable[..., object]) -> list[Path]:
        """Files, made together unless all of them are there: `write` gets a temporary path for each. Raises OutputError."""
        if not all(self.key(name) is not None for name in names):
            self._make(names, write, "")
        return [self.directory / name for name in names]

    def _make(self, names: Sequence[str], write: Callable[..., object], key: str) -> None:
        """Each file under a temporary name, then its record, then its name: killed in between, it differs from the record
        and is made again; where it cannot be written, nothing has changed.
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
            raise self._unwritable(error) from None
        finally:
            for file in temporary:
                try_remove(file)

    def _unwritable(self, error: OSError) -> OutputError:
        why = error.strerror or error
        return OutputError(f"{self.directory}: cannot be written ({why}); free space or choose another place")

    def _clear(self, name: str) -> None:
        """Remove what killed processes left of a file."""
        for path in self._left.pop(name, []):
            try_remove(path)

    def _sound(self, name: str, read: Callable[[Path], T], hash_of: Callable[[T], str]) -> T | None:
        """Read a file of the record with `read`; None where it is missing or damaged."""
        if name not in self._record.files:
            return None
        try:
            found = read(self.directory / name)
            if hash_of(found) == self._record.files[name].xxh3:
                return found
        except FileNotFoundError:
            return None
        except OSError:  # something else has its place
            pass
        log.warning("%s: not as it was written; made again", self.directory / name)
        return None

    def _enter(self, name: str, file: KeptFile) -> None:
        """Enter a file in the record: the record is written whole, or an entry appended, so that n files cost O(n)."""
        if self._stale:
            try_remove(self._journal)
            for stale in self._stale:
                try_remove(self.directory / stale)
        self._stale = []
        self._record.files[name] = file
        number, appended = len(self._record.files), self._appended
        if number > max(WHOLE, 2 * appended):
            self._appended = number  # if this fails half-way, the next entry makes the record whole
            with self._journal.open("ab") as stream:
                stream.write(msgspec.json.encode(Entry(name, file)) + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
            self._appended = appended + 1
        else:
            write_whole(self._file, msgspec.json.format(msgspec.json.encode(self._record, order="sorted"), indent=1) + b"\n")
            try_remove(self._journal)
            self._appended = 0


def written(file: Path, content: bytes) -> str:
    """Write a file that another process will enter in its record; the hash of it. Raises OutputError."""
    write_whole(file, content)
    return xxhash.xxh3_128_hexdigest(content)


def _journal(record: Path) -> Path:
    return record.with_name(f"{record.name}.journal")


def read_record(file: Path) -> Record:
    """Read a record and its journal; return an empty one where there is none, or a damaged one."""
    try:
        record = msgspec.json.decode(read_regular(file), type=Record)
        *lines, _ = _content(_journal(file)).split(b"\n")  # what follows the last line break was cut off
        record.files |= {entry.name: entry.file for entry in (msgspec.json.decode(line, type=Entry) for line in lines)}
        return record
    except FileNotFoundError:
        return Record()
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        log.warning("%s is damaged: the files beside it are made again", file)
        return Record()


def _content(file: Path) -> bytes:
    return read_regular(file) if file.exists() else b""


def file_hash(file: Path) -> str:
    """The XXH3 (128 bits) of a file's bytes. Raises OSError."""
    with open_regular(file) as stream:
        return hashlib.file_digest(stream, xxhash.xxh3_128).hexdigest()  # type: ignore[arg-type]  # as in `sha256`


def npy(array: np.ndarray) -> bytes:
    """An array as the content of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def array_of(content: bytes) -> np.ndarray:
    """The array in the content of a .npy file."""
    array: np.ndarray = np.load(io.BytesIO(content), allow_pickle=False)
    return array
