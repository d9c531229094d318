"""Read the members of zip archives like files, without unpacking them.

The path of a member is that of its archive, followed by its name in the archive: argsme.zip/debateorg.json.
"""

import errno
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from gzip import BadGzipFile
from io import BufferedReader
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, BadZipFile, ZipExtFile, ZipFile, ZipInfo

from submission.errors import InputError, abbreviate
from submission.storage.atomic_files import open_regular

DAMAGE_ERRORS = (BadZipFile, EOFError, LZMAError, OSError, RuntimeError, ValueError, struct.error, zlib.error)
COMPRESSION_METHODS = (ZIP_STORED, ZIP_DEFLATED, ZIP_BZIP2, ZIP_LZMA)
ENCRYPTED = 1  # bit of ZipInfo.flag_bits
UNPACK = "unpack the archive and pass the directory of its files"


def is_archive(file: Path) -> bool:
    """Return whether a file is a zip archive by its name, or by its first bytes if a download has another name."""
    if file.suffix.lower() == ".zip":
        return True
    with open_regular(file) as stream:
        return stream.read(2) == b"PK"


def find_archive(path: Path) -> Path | None:
    """Return the file that contains a path, which is an archive if the path is that of a member; None if there is none."""
    return next((parent for parent in path.parents if parent.is_file()), None)


def list_members(archive: Path) -> list[Path]:
    """Return the paths of the files in an archive, except hidden ones.

    Raises:
        InputError: If the archive is damaged or a member cannot be read.
        OSError: If the archive cannot be read.
    """
    with _as_input_errors(archive), ZipFile(archive) as zip_file:
        members = [info for info in zip_file.infolist() if not info.is_dir() and not _is_hidden(info)]
    for info in members:
        if fault := _describe_fault(info):
            raise InputError(f"{archive}/{abbreviate(info.filename)}: {fault}")
    return [archive / info.filename for info in members]


@contextmanager
def open_file(file: Path) -> Iterator[BufferedReader | ZipExtFile]:
    """Open a regular file or a member of an archive for reading.

    Raises:
        InputError: If the archive of a member is damaged; also if the context reads damaged data.
        OSError: If the file is missing, unreadable or not a regular file.
    """
    try:
        stream = open_regular(file)
    except NotADirectoryError:
        archive = find_archive(file)
        if archive is None or not is_archive(archive):
            raise
        with _as_input_errors(file), ZipFile(archive) as zip_file:
            members = {archive / info.filename: info for info in zip_file.infolist()}
            if file not in members:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file)) from None
            with zip_file.open(members[file]) as member:
                yield member  # type: ignore[misc]  # a ZipExtFile
    else:
        with stream:
            yield stream


@contextmanager
def _as_input_errors(path: Path) -> Iterator[None]:
    """Convert exceptions that damage of an archive causes to InputErrors, but not those of a missing file or a gzip stream."""
    try:
        yield
    except DAMAGE_ERRORS as error:
        if isinstance(error, InputError | BadGzipFile) or getattr(error, "filename", None) is not None:
            raise
        cause = abbreviate(str(error) or type(error).__name__, 200)
        raise InputError(f"{path}: damaged zip archive ({cause}); download it again") from None


def _is_hidden(info: ZipInfo) -> bool:
    """Return whether a member is hidden, or is in the directory that macOS adds to archives."""
    name = PurePosixPath(info.filename)
    return name.name.startswith(".") or "__MACOSX" in name.parts


def _describe_fault(info: ZipInfo) -> str:
    """Return why a member cannot be read, with a fix; "" if it can."""
    name = PurePosixPath(info.filename)
    if name.is_absolute() or ".." in name.parts:
        return "path that leads out of the archive; use the archive of the publishers"
    if info.flag_bits & ENCRYPTED:
        return f"encrypted; {UNPACK}"
    if name.suffix.lower() == ".zip":
        return f"zip archive in a zip archive; {UNPACK}"
    if info.compress_type not in COMPRESSION_METHODS:
        return f"compression method {info.compress_type} is not supported; {UNPACK}"
    return ""
