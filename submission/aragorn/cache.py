"""Keep results on disk, finished or absent, in a directory that processes and machines may share.

An entry is named NAME-HASH, after the hash of its key; it is one of

    a file             checksum (16 bytes), then the payload
    a directory        memory-mapped files, and checksums.json
    a folder of parts  files like the first

A reader needs no lock, because entries appear by a rename. `.NAME-HASH.lock` is locked by the
process that builds an entry; the lock ends with its process. `.NAME-HASH.….part` is what a process
is writing. Symbolic links in the directory are replaced, never followed. Methods that write raise
OutputError if the directory is not writable.
"""

import fcntl
import hashlib
import io
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec
import numpy as np
import xxhash

from aragorn.errors import OutputError, abbreviate_list, pluralise
from aragorn.signals import on_interrupt
from aragorn.storage.atomic_files import (
    build_unwritable_error,
    create_directory,
    find_temporary_files,
    get_temporary_path,
    open_regular,
)
from aragorn.storage.locks import lock_directory

log = logging.getLogger(__name__)

CHECKSUM_SIZE = 16  # bytes
CHECKSUMS_FILE = "checksums.json"
TEMPORARY_PREFIX = ".aragorn-work-"
# marks a temporary directory that this program created and may delete
MARKER_FILE = "made-by-aragorn"


class Cache:
    """Results on disk, finished or absent; threads, processes and machines may share it."""

    def __init__(self, path: Path) -> None:
        """Use an existing directory; `open_cache` also creates, locks and removes one."""
        self.path = path
        self._used: set[Path] = set()

    def get(self, name: str, key: str) -> bytes | None:
        """Return a payload; None if it is absent or, with a warning, damaged."""
        return _read_payload(self._locate(name, key))

    def put(self, name: str, key: str, content: bytes) -> None:
        """Write a payload atomically."""
        with self.lock(name, key):
            _write_payload(self._locate(name, key), content)

    def get_or_build(self, name: str, key: str, build: Callable[[], bytes]) -> bytes:
        """Return a payload; build it if it is absent or damaged, while other processes wait."""
        path = self._locate(name, key)
        content = _read_payload(path, warns=False)
        if content is None:
            with self.lock(name, key):  # meanwhile, another process may have built it
                content = _read_payload(path)
                if content is None:
                    content = build()
                    _write_payload(path, content)
        return content

    def directory(self, name: str, key: str, build: Callable[[Path], object]) -> Path:
        """Return a directory of files to map into memory; if it is absent or damaged, `build` fills
        a temporary one."""
        path = self._locate(name, key)
        if _describe_damage(path) is not None:
            with self.lock(name, key):
                cause = _describe_damage(path)
                if cause:
                    log.warning("%s: %s; rebuilding it", path, cause)
                if cause is not None:
                    _build_directory(path, build)
        return path

    def parts(self, name: str, key: str) -> "Parts":
        """Return the folder of the parts of a result that grows."""
        return Parts(self._locate(name, key))

    def lock(self, name: str, key: str) -> AbstractContextManager[None]:
        """Let no other thread or process build an entry; log if this waits. A thread must not take
        the same lock twice."""
        return _lock_entry(self._locate(name, key))

    def has(self, name: str) -> bool:
        """Return whether there is an entry of this name, with any key."""
        return any(self.path.glob(f"{name}-*"))

    def describe_unused(self) -> str:
        """Describe number, size and names of the entries that have the name of a used one, but
        another key; "" if there are none."""
        names = {_get_name(path) for path in self._used}
        entries = {path for path in self.path.iterdir() if _get_name(path) in names}
        unused = sorted(entries - self._used)
        if not unused:
            return ""
        size = sum(map(_measure_size, unused)) / 1e6
        count = pluralise(len(unused), "unused result")
        origin = f"of other systems, inputs, checkpoints, settings or versions ({size:.1f} MB)"
        examples = abbreviate_list([path.name for path in unused])
        return f"{count} {origin}; delete them if unneeded: {examples}"

    def _locate(self, name: str, key: str) -> Path:
        path = self.path / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        self._used.add(path)
        return path


class Parts:
    """Folder of independent payloads; one whose checksum fits is finished, whoever wrote it.

    It is pickled as its path.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def read(self, part: str) -> bytes | None:
        """Return a payload; None if it is absent or, with a warning, damaged."""
        return None if self.path.is_symlink() else _read_payload(self.path / part)

    def write(self, part: str, content: bytes) -> None:
        """Write a payload atomically."""
        if self.path.is_symlink():
            self.path.unlink()
        create_directory(self.path)
        _write_payload(self.path / part, content)

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
        with suppress(FileNotFoundError, NotADirectoryError):
            return sorted(path.name for path in self.path.iterdir() if path.name[0] != ".")
        return []

    def discard(self, part: str) -> None:
        """Remove a part if it exists; ignore failure."""
        _remove(self.path / part)

    def lock(self) -> AbstractContextManager[None]:
        """Let no other thread or process write parts, except on behalf of this one; see
        `Cache.lock`."""
        return _lock_entry(self.path)

    def remove(self) -> None:
        """Remove all parts."""
        _remove(self.path)


@contextmanager
def open_cache(directory: Path | None, fallback_dir: Path) -> Iterator[Cache]:
    """Open a cache directory; None: a temporary one, which is removed afterwards.

    If the system provides no directory for temporary files, it is made in `fallback_dir`, and
    `tempfile` uses it from now on.

    Raises:
        OutputError: If the directory cannot be created, or a process uses it exclusively.
    """
    with ExitStack() as stack:
        path = directory or Path(stack.enter_context(_create_temporary(fallback_dir)))
        create_directory(path)
        if directory:
            stack.enter_context(lock_directory(path, shared=True))
        else:
            descriptor = os.open(path, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            with suppress(OSError):  # on a file system without locks, no process removes it
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            (path / MARKER_FILE).touch()  # after the lock
            stack.enter_context(on_interrupt(lambda: shutil.rmtree(path, ignore_errors=True)))
        try:
            tempfile.gettempdir()
        except OSError:  # torch requires a temporary directory when imported
            tempfile.tempdir = str(path)
        yield Cache(path)


def remove_stale_directories(directory: Path) -> None:
    """Remove the temporary cache directories of this user's killed processes; living processes hold
    a lock on theirs."""
    for path in directory.glob(f"{TEMPORARY_PREFIX}*"):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_own = os.fstat(descriptor).st_uid == os.geteuid()
                if is_own and (path / MARKER_FILE).is_file():
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)


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
    """Hold the lock of an entry, and remove what killed processes left; do without a lock if the
    file system has none, as renames suffice for correctness."""
    file = path.with_name(f".{path.name}.lock")
    descriptor = _acquire(file)
    try:
        if descriptor is not None:
            _remove_temporary(path.parent, path.name)
            if not path.is_symlink():
                _remove_temporary(path, None)
        yield
    finally:
        if descriptor is not None:
            with suppress(OSError):
                file.unlink()
            os.close(descriptor)


def _acquire(file: Path) -> int | None:
    """Lock a file, which is created if it is missing; return its descriptor, or None if it cannot
    be locked."""
    while True:
        descriptor = -1
        try:
            # writable, because NFS refuses exclusive locks on others
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(file, flags, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):  # which one depends on the file system
                log.info("Waiting for another process that builds %s", file.name[1:-5])
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                return descriptor
            os.close(descriptor)  # its last owner has removed the file
        except OSError:
            if descriptor >= 0:
                os.close(descriptor)
            return None


def _read_payload(path: Path, warns: bool = True) -> bytes | None:
    """Return a payload; None if it is absent or, with a warning if `warns`, damaged."""
    try:
        with open_regular(path, follow_links=False) as stream:
            checksum = stream.read(CHECKSUM_SIZE)
            content = stream.read()
        if checksum == _compute_checksum(path, content):
            return content
        cause = "checksum mismatch"
    except FileNotFoundError:
        return None
    except OSError as error:  # not a readable regular file
        cause = str(error.strerror)
    if warns:
        log.warning("%s: %s; rebuilding it", path, cause)
    return None


def _write_payload(path: Path, content: bytes) -> None:
    temporary = get_temporary_path(path)
    try:
        with temporary.open("xb") as stream:
            stream.write(_compute_checksum(path, content))
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if path.is_dir() and not path.is_symlink():
            _remove(path)  # foreign, with a warning of `_read_payload`
        temporary.replace(path)
    except OSError as error:
        raise build_unwritable_error(path, error) from None
    finally:
        _remove(temporary)


def _compute_checksum(path: Path, content: bytes) -> bytes:
    """Compute the checksum of a payload and its name, so that no copy of another entry is valid."""
    state = xxhash.xxh3_128(path.name.encode(errors="surrogateescape"))
    state.update(content)
    return state.digest()


def _describe_damage(path: Path) -> str | None:
    """Return why a directory must be built: "" if it is absent; None if it is intact."""
    try:
        if path.is_symlink():
            return "a symbolic link"
        with open_regular(path / CHECKSUMS_FILE, follow_links=False) as stream:
            checksums = msgspec.json.decode(stream.read(), type=dict[str, str])
        if checksums.pop(CHECKSUMS_FILE, None) != path.name:
            return f"{CHECKSUMS_FILE} is of another directory"
        for name, checksum in checksums.items():
            if _hash_file(path / name) != checksum:
                return f"checksum mismatch of {name}"
    except FileNotFoundError as error:
        return f"{error.filename} is missing" if path.exists() else ""
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        return str(error)
    return None


def _build_directory(path: Path, build: Callable[[Path], object]) -> None:
    temporary = get_temporary_path(path)
    try:
        temporary.mkdir()
        build(temporary)
        checksums = {file.name: _hash_file(file) for file in sorted(temporary.iterdir())}
        checksums[CHECKSUMS_FILE] = path.name  # so that no copy of another entry is valid
        (temporary / CHECKSUMS_FILE).write_bytes(msgspec.json.encode(checksums))
        for file in temporary.iterdir():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
        # None: another process has built it meanwhile, on a file system without locks
        if _describe_damage(path) is not None:
            _remove(path)
            temporary.replace(path)
    except OSError as error:
        raise build_unwritable_error(path, error) from None
    finally:
        _remove(temporary)


def _hash_file(file: Path) -> str:
    with open_regular(file, follow_links=False) as stream:
        return hashlib.file_digest(stream, xxhash.xxh3_128).hexdigest()


def _remove_temporary(folder: Path, name: str | None) -> None:
    """Remove the temporary files for the entry `name` of a folder, or for all its files."""
    with suppress(FileNotFoundError, NotADirectoryError):
        for target, paths in find_temporary_files(folder).items():
            if name in (None, target):
                for path in paths:
                    _remove(path)


def _remove(path: Path) -> None:
    """Remove a file, a link or a directory; ignore failure."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _measure_size(path: Path) -> int:
    """Return the size of an entry in bytes, without files that another process deletes
    meanwhile."""
    size = 0
    for file in (path, *path.rglob("*")):
        with suppress(OSError):
            size += file.stat().st_size if file.is_file() else 0
    return size


def _get_name(path: Path) -> str:
    """Return the name of an entry without the hash of its key."""
    return path.name.rpartition("-")[0]


def _create_temporary(fallback_dir: Path) -> tempfile.TemporaryDirectory[str]:
    try:
        remove_stale_directories(Path(tempfile.gettempdir()))
        return tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, ignore_cleanup_errors=True)
    except OSError as error:  # e.g. a container with a read-only root
        message = "Using %s for temporary files: this system provides no temporary directory (%s)"
        log.info(message, fallback_dir, error.strerror)
    remove_stale_directories(fallback_dir)
    try:
        return tempfile.TemporaryDirectory(
            prefix=TEMPORARY_PREFIX, dir=fallback_dir, ignore_cleanup_errors=True
        )
    except OSError as error:
        cause = f"{fallback_dir}: no writable temporary directory ({error.strerror})"
        raise OutputError(f"{cause}; set --cache-dir") from None
