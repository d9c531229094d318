"""Write files atomically: temporary name, fsync, rename."""

import ctypes
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from zlib import crc32

from aragorn.errors import SPACE_ERRORS, OutputError, escape_undecodable

# see `get_temporary_path`
TEMPORARY_NAME = re.compile(r"\.(.+)\.[0-9a-f]+-[0-9]+-[0-9a-f]{8}\.part")
FILE_TYPES = {
    "a directory": stat.S_ISDIR,
    "a FIFO": stat.S_ISFIFO,
    "a character device": stat.S_ISCHR,
    "a block device": stat.S_ISBLK,
}
# arguments of renameat2(2)
AT_FDCWD = -100
RENAME_EXCHANGE = 2


def create_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise build_unwritable_directory_error(directory, error) from None


def build_unwritable_directory_error(directory: Path, error: OSError) -> OutputError:
    is_dangling = os.path.lexists(directory) and not os.path.exists(directory)  # noqa: PTH110 long names
    cause = "a link without a target" if is_dangling else error.strerror
    return OutputError(f"{directory}: not a writable directory ({cause}); choose another directory")


def build_unwritable_error(path: Path, error: OSError) -> OutputError:
    fix = "free disk space or choose" if error.errno in SPACE_ERRORS else "choose"
    if error.errno == errno.EFBIG:
        fix = "raise the limit of file sizes (ulimit -f) or choose"
    return OutputError(
        f"{error.filename2 or path}: cannot be written ({error.strerror or error}); {fix} another "
        "directory"
    )


def write_atomic(file: Path, content: str | bytes, pattern: bytes) -> None:
    """Write a file that the user named, from its complete old to its complete new content.

    A device or FIFO, such as /dev/stdout, is written to, as a rename would replace it; writing to a
    FIFO that no process reads fails.

    Raises:
        OutputError: If the file cannot be written, is a link to another kind of file, or is neither
            empty nor begins with a match of the regular expression `pattern`, as all files of this
            kind do.
    """
    try:
        check_replaceable(file, pattern)
        if file.is_fifo() or file.is_char_device():
            descriptor = os.open(file, os.O_WRONLY | os.O_NONBLOCK)  # waits for no reader
            os.set_blocking(descriptor, True)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(_encode(content))
        else:
            replace_atomic(file, content)
    except OSError as error:
        raise build_unwritable_error(file, error) from None


def write_all_atomic(contents: Mapping[Path, tuple[str | bytes, bytes]]) -> None:
    """Write files, each with its content and pattern, as `write_atomic` does, or none of them if
    one cannot be replaced."""
    for file, (_, pattern) in contents.items():
        check_replaceable(file, pattern)
    for file, (content, pattern) in contents.items():
        write_atomic(file, content, pattern)


def check_replaceable(file: Path, pattern: bytes) -> None:
    """Raise OutputError if a file may be the user's, see `write_atomic`."""
    cause = "a symbolic link, through which nothing is written"
    try:
        if not os.path.lexists(file) or file.is_fifo() or file.is_char_device():
            return
        if not file.is_symlink():
            with open_regular(file) as stream:
                start = stream.read(4096)
            if not start or re.match(pattern, start):
                return
            cause = "a file of another program"
    except OSError as error:
        raise build_unwritable_error(file, error) from None
    raise OutputError(f"{file}: {cause}; move it away or choose another path")


def replace_atomic(file: Path, content: str | bytes) -> None:
    """Atomically write a file that the user did not name; a link or device is replaced."""
    temporary = get_temporary_path(file)
    try:
        with temporary.open("xb") as stream:
            stream.write(_encode(content))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    except OSError as error:
        raise build_unwritable_error(file, error) from None
    finally:
        remove(temporary)


def _encode(content: str | bytes) -> bytes:
    return escape_undecodable(content).encode() if isinstance(content, str) else content


def get_printable_name(file: Path) -> str:
    """Return a file's name as text, with undecodable bytes escaped."""
    return escape_undecodable(file.name)


def get_temporary_path(file: Path) -> Path:
    """Return a path in the directory of a file that no process on any machine or container uses."""
    host = crc32(os.uname().nodename.encode())
    return file.with_name(f".{file.name}.{host:x}-{os.getpid()}-{secrets.token_hex(4)}.part")


def remove_stale_files(directory: Path, names: Collection[str] | None = None) -> None:
    """Remove what killed processes left of the files `names`, or of all if it is None."""
    for path in directory.glob(".*.part"):
        match = TEMPORARY_NAME.fullmatch(path.name)
        if match and (names is None or match[1] in names):
            remove(path)


@contextmanager
def replace_directory(directory: Path) -> Iterator[Path]:
    """Yield a temporary directory for files, which then replaces the complete old directory.

    If the file system cannot exchange two directories, an interruption between two renames leaves
    the old directory under a backup name, from which `recover_directory` restores it. Raises
    OutputError if writing fails, in the block, too.
    """
    temporary = get_temporary_path(directory)
    backup = _get_backup(directory)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for file in temporary.iterdir():
            sync_file(file)
        if not _exchange(temporary, directory):  # the old one is missing, or this is not supported
            if os.path.lexists(directory):
                remove(backup)
                directory.replace(backup)
            temporary.replace(directory)
        remove(backup)
    except OSError as error:
        raise build_unwritable_error(directory, error) from None
    finally:
        remove(temporary)


def sync_file(file: Path) -> None:
    """Wait until a file's content is on the disk."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())


def _get_backup(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}.old")


def _exchange(first: Path, second: Path) -> bool:
    """Swap two directories atomically; return whether the file system supports it."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    paths = os.fsencode(first), os.fsencode(second)
    return (
        renameat2 is not None
        and renameat2(AT_FDCWD, paths[0], AT_FDCWD, paths[1], RENAME_EXCHANGE) == 0
    )


def recover_directory(directory: Path) -> None:
    """Restore the old directory if `replace_directory` was killed between its two renames."""
    backup = _get_backup(directory)
    if backup.exists() and not directory.exists():
        with suppress(OSError):  # read-only, or another process was faster
            backup.replace(directory)


def open_regular(file: Path, follow_links: bool = True) -> BufferedReader:
    """Open a file for reading; raise OSError for others (a FIFO would block) and unwanted links."""
    flags = os.O_RDONLY | os.O_NONBLOCK
    descriptor = os.open(file, flags if follow_links else flags | os.O_NOFOLLOW)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    file_type = next(
        (name for name, has_type in FILE_TYPES.items() if has_type(mode)), "not a regular file"
    )
    raise OSError(errno.EINVAL, f"{file_type}; expected a regular file", str(file))


def read_regular(file: Path, follow_links: bool = True) -> bytes:
    """Return the content of a regular file; raise OSError as `open_regular` does."""
    with open_regular(file, follow_links) as stream:
        return stream.read()


def remove(path: Path) -> None:
    """Remove a file, a link or a directory; ignore failure."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def sha256_file(file: Path) -> str:
    """Return the SHA-256 of a regular file in hexadecimal; raise OSError as `open_regular` does."""
    with open_regular(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
