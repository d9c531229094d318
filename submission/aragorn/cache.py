"""Keep results on disk, finished or absent, in a directory that processes and machines may share.

An entry is named NAME-HASH, after the hash of its key; it is either

    a folder of parts  files with a checksum (16 bytes) and a payload each, or
    a directory        memory-mapped files, and checksums.json

A reader needs no lock, because parts and directories appear by a rename. `.NAME-HASH.lock` is
locked by the process that builds an entry. `.….part` is what a process is writing. Symbolic links
in the directory are replaced, never followed. Methods that write raise OutputError if the directory
is not writable.
"""

import hashlib
import io
import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import xxhash

from aragorn.errors import OutputError, abbreviate_list, pluralise
from aragorn.signals import on_interrupt
from aragorn.storage.atomic_files import (
    create_directory,
    open_regular,
    read_regular,
    remove,
    remove_stale_files,
    replace_atomic,
    replace_directory,
)
from aragorn.storage.locks import (
    MARKER_FILE,
    TEMPORARY_PREFIX,
    lock_directory,
    lock_file,
    remove_stale_directories,
)
from aragorn.storage.recorded_files import compute_xxh3, find_intact, verify_checksum

log = logging.getLogger(__name__)

ENTRY_NAME = re.compile(r"([a-z][a-z0-9_-]*)-[0-9a-f]{16}")
CHECKSUM_SIZE = 16  # bytes
CHECKSUMS_FILE = "checksums.json"


class Cache:
    """Results on disk, finished or absent; threads, processes and machines may share it."""

    def __init__(self, path: Path) -> None:
        """Use an existing directory; `open_cache` also creates, locks and removes one."""
        self.path = path
        self._used: set[Path] = set()

    def get_or_build(self, name: str, key: str, build: Callable[[], bytes]) -> bytes:
        """Return a payload; build it if it is absent or damaged, while other processes wait."""
        parts = self.parts(name, key)
        with parts.lock():
            return parts.get_or_build(parts.path.name, build)

    def directory(self, name: str, key: str, build: Callable[[Path], object]) -> Path:
        """Return a directory of files to map into memory, as `get_or_build`; `build` fills it."""
        path = self._locate(name, key)
        with suppress(OSError, ValueError):
            return _verify_directory(path)
        with _lock_entry(path):  # meanwhile, another process may have built it
            return find_intact(path, _verify_directory) or _write_directory(path, build)

    def parts(self, name: str, key: str) -> "Parts":
        return Parts(self._locate(name, key))

    def has(self, name: str) -> bool:
        """Return whether there is an entry of this name, with any key."""
        return any(self.path.glob(f"{name}-*"))

    def describe_unused(self) -> str:
        """Describe the entries with the name, but not the key, of one used here; "" if none."""
        unused = [entry for entry in list_entries(self.path) if entry.path not in self._used]
        names = {path.name.rpartition("-")[0] for path in self._used}
        outdated = [entry for entry in unused if entry.name in names]
        if not outdated:
            return ""
        megabytes = sum(entry.size for entry in outdated) / 1e6
        origin = f"of other systems, inputs, checkpoints, settings or versions ({megabytes:.1f} MB)"
        examples = abbreviate_list([entry.path.name for entry in outdated])
        count = pluralise(len(outdated), "unused result")
        return f"{count} {origin}; delete them if unneeded: {examples}"

    def _locate(self, name: str, key: str) -> Path:
        path = self.path / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        self._used.add(path)
        with suppress(OSError):  # absent, or the cache is read-only
            os.utime(path, follow_symlinks=False)
        return path


class Entry(NamedTuple):
    """A result in a cache directory."""

    name: str
    path: Path
    size: int  # bytes
    age: float  # seconds since it was last used


def list_entries(directory: Path) -> list[Entry]:
    """List the results in a cache directory, by path. Raises OutputError if it cannot be read."""
    entries = []
    try:
        for path in sorted(directory.iterdir()):
            if match := ENTRY_NAME.fullmatch(path.name):
                size = 0
                for file in path.rglob("*"):
                    with suppress(OSError):  # another process has removed it
                        size += file.lstat().st_size
                entries.append(Entry(match[1], path, size, time.time() - path.lstat().st_mtime))
    except OSError as error:
        fix = "pass the directory of --cache-dir"
        raise OutputError(f"{directory}: cannot be read ({error.strerror}); {fix}") from None
    return entries


def prune(directory: Path, max_age: float) -> list[Entry]:
    """Remove and return the results not used for `max_age` seconds that have intact files; raise
    OutputError if the directory is in use."""
    with lock_directory(directory):
        unused_entries = [
            entry
            for entry in list_entries(directory)
            if entry.age > max_age and _has_intact_file(entry.path)
        ]
        for entry in unused_entries:
            remove(entry.path)
    return unused_entries


def _has_intact_file(path: Path) -> bool:
    """Return whether a path is a directory with checksums, or a folder with an intact part."""
    if (path / CHECKSUMS_FILE).is_file():
        return True
    for part in path.glob("[!.]*"):
        with suppress(OSError, ValueError):
            _read_payload(part)
            return True
    return False


class Parts:
    """Folder of independent payloads, each finished if its checksum fits; pickled as its path."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def read(self, part: str) -> bytes | None:
        """Return a payload; None if it is absent or, with a warning, damaged."""
        return None if self.path.is_symlink() else find_intact(self.path / part, _read_payload)

    def write(self, part: str, content: bytes) -> None:
        """Write a payload atomically."""
        file = self.path / part
        if self.path.is_symlink() or not self.path.is_dir():
            # a foreign file or link, but not a folder that another process creates meanwhile
            with suppress(OSError):
                self.path.unlink()
        create_directory(self.path)
        if file.is_dir() and not file.is_symlink():
            remove(file)  # foreign, with a warning of `read`
        replace_atomic(file, _compute_checksum(file, content) + content)

    def get_or_build(self, part: str, build: Callable[[], bytes]) -> bytes:
        """Return a payload; build it if it is absent or damaged."""
        content = self.read(part)
        if content is None:
            content = build()
            self.write(part, content)
        return content

    def get_or_build_array(self, part: str, build: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the array in a payload; build it if it is absent or damaged."""
        return decode_npy(self.get_or_build(part, lambda: encode_npy(build())))

    def get_names(self) -> list[str]:
        """Return the names of all parts, intact or not, ascending."""
        return sorted(path.name for path in self.path.glob("[!.]*"))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let no other thread or process write parts; log if this waits. Not re-entrant."""
        with _lock_entry(self.path):
            if not self.path.is_symlink():
                remove_stale_files(self.path)
            yield

    def remove(self, part: str = "") -> None:
        """Remove a part, or else all parts; ignore failure."""
        remove(self.path / part)


@contextmanager
def open_cache(directory: Path | None, fallback_dir: Path) -> Iterator[Cache]:
    """Open a cache directory; None: a temporary one of the system, or else in `fallback_dir`.

    In the latter case, `tempfile` uses it from now on. Raises OutputError if the directory cannot
    be created, or a process uses it exclusively.
    """
    with ExitStack() as stack:
        path = directory or stack.enter_context(_open_temporary(fallback_dir))
        create_directory(path)
        stack.enter_context(lock_directory(path, shared=directory is not None))
        if directory is None:
            (path / MARKER_FILE).touch()  # after the lock
        try:
            tempfile.gettempdir()
        except OSError:  # torch requires a temporary directory when imported
            tempfile.tempdir = str(path)
        yield Cache(path)


@contextmanager
def _open_temporary(fallback_dir: Path) -> Iterator[Path]:
    """Create a temporary directory, which no process that this one forks removes when it ends."""
    path = Path(_create_temporary(fallback_dir))
    process_id = os.getpid()

    def delete() -> None:
        if os.getpid() == process_id:
            remove(path)

    try:
        with on_interrupt(delete):
            yield path
    finally:
        delete()


def _create_temporary(fallback_dir: Path) -> str:
    try:
        remove_stale_directories(Path(tempfile.gettempdir()))
        return tempfile.mkdtemp(prefix=TEMPORARY_PREFIX)
    except OSError as error:  # e.g. a container with a read-only root
        message = "Using %s for temporary files: this system provides no temporary directory (%s)"
        log.info(message, fallback_dir, error.strerror)
    remove_stale_directories(fallback_dir)
    try:
        fallback_dir.mkdir(parents=True, exist_ok=True)
        return tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=fallback_dir)
    except OSError as error:
        cause = f"{fallback_dir}: no writable temporary directory ({error.strerror})"
        raise OutputError(f"{cause}; set --cache-dir") from None


def encode_npy(array: np.ndarray) -> bytes:
    """Serialise an array in .npy format."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def decode_npy(content: bytes) -> np.ndarray:
    """Deserialise an array in .npy format."""
    array: np.ndarray = np.load(io.BytesIO(content), allow_pickle=False)
    return array


@contextmanager
def _lock_entry(path: Path) -> Iterator[None]:
    """Lock an entry, where the file system can; remove what killed processes left."""
    with lock_file(path.with_name(f".{path.name}.lock")) as is_locked:
        if is_locked:
            remove_stale_files(path.parent, {path.name})
        yield


def _read_payload(path: Path) -> bytes:
    """Return a payload; raise OSError or ValueError if it is absent or damaged."""
    with open_regular(path, follow_links=False) as stream:
        checksum = stream.read(CHECKSUM_SIZE)
        payload = stream.read()
    if checksum != _compute_checksum(path, payload):
        raise ValueError("checksum mismatch")
    return payload


def _compute_checksum(path: Path, payload: bytes) -> bytes:
    """Compute the checksum of a payload and its name, so that no copy of another entry is valid."""
    state = xxhash.xxh3_128(path.name.encode(errors="surrogateescape"))
    state.update(payload)
    return state.digest()


def _verify_directory(path: Path) -> Path:
    """Return a directory; raise OSError or ValueError if it is absent or damaged."""
    if path.is_symlink():
        raise ValueError("a symbolic link")
    content = read_regular(path / CHECKSUMS_FILE, follow_links=False)
    checksums = msgspec.json.decode(content, type=dict[str, str])
    if checksums.pop(CHECKSUMS_FILE, None) != path.name:
        raise ValueError(f"{CHECKSUMS_FILE} is of another directory")
    for name, checksum in checksums.items():
        verify_checksum(path / name, checksum, follow_links=False)
    return path


def _write_directory(path: Path, build: Callable[[Path], object]) -> Path:
    with replace_directory(path) as temporary:
        build(temporary)
        checksums = {file.name: compute_xxh3(file) for file in sorted(temporary.iterdir())}
        checksums[CHECKSUMS_FILE] = path.name  # so that no copy of another entry is valid
        (temporary / CHECKSUMS_FILE).write_bytes(msgspec.json.encode(checksums))
    return path
