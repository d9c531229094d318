"""Read the members of zip archives like files, without unpacking them.

The path of a member is that of its archive, followed by its name in the archive: argsme.zip/debateorg.json.
"""

import errno
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, BadZipFile, ZipExtFile, ZipFile, ZipInfo

from submission.errors import InputError, build_unreadable_input_error
from submission.storage.atomic_files import open_regular

ARCHIVE_ERRORS = (BadZipFile, EOFError, LZMAError, NotImplementedError, struct.error, zlib.error)
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
    """Return the paths of the files in an archive, except hidden ones; raise InputError if a member cannot be read safely."""
    try:
        with open_regular(archive), _as_input_errors(archive), ZipFile(archive) as zip_file:
            members = [info for info in zip_file.infolist() if not info.is_dir()]
    except InputError:
        raise
    except OSError as error:
        raise build_unreadable_input_error(error) from None
    except ValueError as error:  # offset or name that is invalid
        raise _build_damage_error(archive, error) from None
    for info in members:
        if fault := _describe_fault(info):
            raise InputError(f"{archive}/{info.filename}: {fault}")
    return [archive / info.filename for info in members if not _is_hidden(info)]


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
    try:
        yield
    except ARCHIVE_ERRORS as error:
        raise _build_damage_error(path, error) from None


def _build_damage_error(path: Path, error: Exception) -> InputError:
    return InputError(f"{path}: damaged zip archive ({error or type(error).__name__}); download it again")


def _is_hidden(info: ZipInfo) -> bool:
    """Return whether a member or a directory above it is hidden, or holds the metadata that macOS adds to archives."""
    return any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(info.filename).parts)


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
