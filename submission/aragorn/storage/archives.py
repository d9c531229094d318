"""Read the members of zip archives like files, without unpacking them, and hash files.

The path of a member is that of its archive, followed by its name in the archive:
argsme.zip/debateorg.json.
"""

import errno
import hashlib
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from gzip import BadGzipFile
from io import BufferedReader
from lzma import LZMAError
from pathlib import Path
from zipfile import BadZipFile, ZipExtFile, ZipFile, ZipInfo

from aragorn.errors import InputError, abbreviate, build_unreadable_input_error
from aragorn.storage.atomic_files import get_printable_name, open_regular

DAMAGE_ERRORS = (
    BadZipFile,
    EOFError,
    LZMAError,
    OSError,
    RuntimeError,
    ValueError,
    struct.error,
    zlib.error,
)
UNPACK = "unpack the archive and pass the directory of its files"


def is_archive(file: Path) -> bool:
    """Return whether a file is a zip archive by its name or its first bytes."""
    with open_regular(file) as stream:
        return file.suffix.lower() == ".zip" or stream.read(2) == b"PK"


def find_archive(file: Path) -> Path | None:
    """Return the archive that contains a file; None if the file is not a member of an archive."""
    return next(
        (parent for parent in file.parents if parent.is_file() and is_archive(parent)), None
    )


def list_members(archive: Path) -> list[Path]:
    """Return the paths of an archive's files, except hidden ones, or raise InputError."""
    with _as_input_errors(archive), ZipFile(archive) as zip_file:
        members = [(_get_name(info), info) for info in zip_file.infolist()]
    files = []
    originals: dict[str, str] = {}
    for name, info in members:
        if name.endswith("/") or Path(name).name.startswith("."):
            continue
        if (original := originals.setdefault(name, info.filename)) != info.filename:
            reason = f"{original} and {info.filename} are the same path"
            raise InputError(archive, "", reason, "remove one of them from the archive")
        if fault := _describe_fault(name, info):
            raise InputError(f"{archive}/{abbreviate(name)}: {fault}")
        files.append(archive / name)
    return files


def _get_name(info: ZipInfo) -> str:
    """Return the name of a member, with slashes also if Windows wrote backslashes."""
    return info.filename.replace("\\", "/")


@contextmanager
def open_file(file: Path) -> Iterator[BufferedReader | ZipExtFile]:
    """Open a file or a member of an archive; raise OSError, or InputError if it is damaged."""
    archive = find_archive(file)
    if archive is None:
        with open_regular(file) as stream:
            yield stream
        return
    with _as_input_errors(file), ZipFile(archive) as zip_file:
        members = {archive / _get_name(info): info for info in zip_file.infolist()}
        if file not in members:
            raise FileNotFoundError(errno.ENOENT, "not in the archive", str(file))
        with zip_file.open(members[file]) as member:
            yield member  # type: ignore[misc]  # a ZipExtFile


@contextmanager
def _as_input_errors(path: Path) -> Iterator[None]:
    """Convert exceptions of a damaged archive, but not of its files, to InputErrors."""
    try:
        yield
    except DAMAGE_ERRORS as error:
        if (
            isinstance(error, InputError | BadGzipFile)
            or getattr(error, "filename", None) is not None
        ):
            raise
        cause = abbreviate(str(error) or type(error).__name__, 200)
        raise InputError(
            f"{path}: damaged or unsupported zip archive ({cause}); download it again, or {UNPACK}"
        ) from None


def _describe_fault(name: str, info: ZipInfo) -> str:
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        return "path that leads out of the archive; use the archive of the publishers"
    if info.flag_bits & 1:
        return f"encrypted; {UNPACK}"
    return f"zip archive in a zip archive; {UNPACK}" if path.suffix.lower() == ".zip" else ""


def combine_hashes(hashes: Mapping[str, str]) -> str:
    """Return the SHA-256 of named hashes, which depends on their order."""
    return hashlib.sha256(
        "".join(f"{name} {value}\n" for name, value in hashes.items()).encode()
    ).hexdigest()


def hash_input_files(files: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 of files by name (and position, if repeated), or raise InputError."""
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
    """Return the SHA-256 of files by file name, or by their keys if names are not unique."""
    names = [get_printable_name(file) for file in files.values()]
    hashes = [
        hash_input_files([file])[name] for file, name in zip(files.values(), names, strict=True)
    ]
    return dict(zip(names if len({*names}) == len(names) else files, hashes, strict=True))
