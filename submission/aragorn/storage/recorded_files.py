"""Write files with a record of their inputs and checksums, so that none is mistaken for a file of
other inputs: the runs of `rank` in fingerprint.json, the tables of `prepare` in manifest.json."""

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import xxhash

from aragorn.errors import OutputError, abbreviate_list, pluralise
from aragorn.signals import on_interrupt
from aragorn.storage.atomic_files import (
    build_unwritable_error,
    create_directory,
    get_temporary_path,
    open_regular,
    read_regular,
    remove,
    remove_stale_files,
    replace_atomic,
    sync_file,
)
from aragorn.storage.locks import lock_directory, remove_stale_directories

log = logging.getLogger(__name__)

T = TypeVar("T")

MANIFEST = "manifest.json"
FINGERPRINT_FILE = "fingerprint.json"
PRIMARY_RUN_FILE = "run.txt"  # the run of the primary system
METADATA_FILE = "ir-metadata.yml"
UNKNOWN = "of unknown origin"
DECODING_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class RecordEntry(msgspec.Struct):
    """Entry of a file, by which it is recognised as damaged or outdated."""

    key: str
    xxh3: str  # checksum (128 bits)

    def verify(self, file: Path) -> str:
        """Return the key if a file has the checksum; raise OSError or ValueError otherwise."""
        verify_checksum(file, self.xxh3)
        return self.key


class Record(msgspec.Struct):
    """Inputs that the files of a directory were built from, and an entry for each file."""

    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    files: dict[str, RecordEntry] = msgspec.field(default_factory=dict)  # by file name


class RecordedFiles:
    """Files of a directory that were built from the same inputs; one without an entry is missing.

    Args:
        directory: Directory of the files; created if missing.
        inputs: Inputs of all files, JSON-serialisable.
        overwrite: Whether to replace files of other inputs, when the first new one is written.
        record_name: File name of the record.
        expected_names: Files to be written; existing ones without an entry are foreign, as is a
            record without the names of `inputs`.

    Raises:
        OutputError: If `overwrite` is false and there are foreign files, or those of other inputs.
    """

    def __init__(
        self,
        directory: Path,
        inputs: Mapping[str, Any],
        overwrite: bool = False,
        record_name: str = MANIFEST,
        expected_names: Collection[str] = (),
    ) -> None:
        create_directory(directory)
        self.directory = directory
        self._record_file = directory / record_name
        old_record = read_record(self._record_file)
        names = {*expected_names, *old_record.files}
        if not old_record.inputs.keys() >= inputs.keys():
            names.add(record_name)  # of another program or damaged, if it exists
        existing_names = sorted(names & {file.name for file in directory.iterdir()})
        changed_inputs = [
            name for name, value in inputs.items() if old_record.inputs.get(name) != value
        ]
        foreign_names = [name for name in existing_names if name not in old_record.files]
        refused_names = existing_names if changed_inputs else foreign_names
        self._overwrite = overwrite
        origin = f"made with another {' and '.join(changed_inputs)}"
        self._refuse(refused_names, origin if changed_inputs and old_record.files else UNKNOWN)
        remove_stale_files(directory, {*names, record_name})
        self._outdated_names = existing_names if changed_inputs else []
        self._record = Record(dict(inputs), {} if changed_inputs else old_record.files)

    def _refuse(self, names: Sequence[str], origin: str) -> None:
        """Raise OutputError if there are names and `overwrite` is false."""
        if names and not self._overwrite:
            count = f"{pluralise(len(names), 'file')} {origin}"
            advice = "choose another directory, or use --overwrite, which removes them"
            raise OutputError(
                f"{self.directory}: contains {count} ({abbreviate_list(names)}); {advice}"
            )

    def __contains__(self, name: str) -> bool:
        return name in self._record.files

    def get_valid_key(self, name: str) -> str | None:
        """Return the key that a file was written with; None if missing or, warned of, damaged."""
        entry = self._record.files.get(name)
        return find_intact(self.directory / name, entry.verify) if entry else None

    def build(self, names: Sequence[str], write: Callable[..., object], key: str = "") -> None:
        """Write files if one is missing or damaged; `write` receives a temporary path each."""
        if any(self.get_valid_key(name) is None for name in names):
            self.write(names, write, key)

    def write(self, names: Sequence[str], write: Callable[..., object], key: str = "") -> None:
        """Write files as `build` does, with the key that `get_valid_key` returns.

        They are recorded before they are renamed, so that an interruption between both leaves a
        checksum mismatch, and they are rebuilt. Raises OutputError for foreign files, unless
        `overwrite`.
        """
        existing_names = [name for name in names if os.path.lexists(self.directory / name)]
        self._refuse([name for name in existing_names if name not in self], UNKNOWN)
        remove_stale_files(self.directory, names)
        temporary_files = [get_temporary_path(self.directory / name) for name in names]
        try:
            write(*temporary_files)
            for file, name in zip(temporary_files, names, strict=True):
                sync_file(file)
                self._add_entry(name, RecordEntry(key, compute_xxh3(file)))
                file.replace(self.directory / name)
        except OSError as error:
            raise build_unwritable_error(self.directory, error) from None
        finally:
            for file in temporary_files:
                remove(file)

    def _add_entry(self, name: str, entry: RecordEntry) -> None:
        if self._outdated_names:
            outdated = ", ".join(self._outdated_names)
            log.info("%s: removing outdated files: %s", self.directory, outdated)
            for outdated_name in self._outdated_names:
                with suppress(OSError):  # a directory is the user's
                    (self.directory / outdated_name).unlink()
        self._outdated_names = []
        self._record.files[name] = entry
        content = msgspec.json.encode(self._record, order="sorted")
        replace_atomic(self._record_file, msgspec.json.format(content, indent=1) + b"\n")


class RunFiles(RecordedFiles):
    """Runs in a directory, each with a key: the hash of code, checkpoint, device, precision."""

    def __init__(
        self,
        directory: Path,
        fingerprint: Mapping[str, str],
        names: Collection[str],
        overwrite: bool,
    ) -> None:
        """Reuse the runs of these inputs and settings; `overwrite` permits replacing all others."""
        expected_names = [PRIMARY_RUN_FILE, *names]
        super().__init__(directory, fingerprint, overwrite, FINGERPRINT_FILE, expected_names)
        remove_stale_files(directory, {METADATA_FILE})

    def is_up_to_date(self, name: str, key: str) -> bool:
        """Return whether a run is intact and has a key; raise OutputError for another key."""
        recorded_key = self.get_valid_key(name)
        if recorded_key not in (None, key) and not self._overwrite:
            cause = "made with another checkpoint, code, device or precision"
            raise OutputError(
                f"{self.directory / name}: {cause}; choose another --output or pass --overwrite"
            )
        return recorded_key == key

    def write_run(self, name: str, content: str, key: str) -> None:
        self.write([name], lambda file: file.write_bytes(content.encode()), key)

    def write_primary_run(self, name: str, key: str) -> None:
        """Write run.txt, a copy of the run file `name`, and log if it was a copy of another run."""
        recorded_key = self.get_valid_key(PRIMARY_RUN_FILE)
        previous_name = recorded_key.split()[0] if recorded_key else name
        if previous_name != name:
            file = self.directory / PRIMARY_RUN_FILE
            log.info("%s: now a copy of %s, was %s", file, name, previous_name)
        content = read_regular(self.directory / name)
        self.write([PRIMARY_RUN_FILE], lambda file: file.write_bytes(content), f"{name} {key}")


@contextmanager
def open_run_directory(path: Path) -> Iterator[None]:
    """Create and lock an output directory; raise OutputError if that is not possible."""
    create_directory(path)
    with lock_directory(path), on_interrupt(lambda: remove_stale_files(path)):
        remove_stale_directories(path)
        try:
            tempfile.TemporaryFile(dir=path).close()  # new, and without a name where possible
        except OSError as error:
            raise build_unwritable_error(path, error) from None
        yield


def is_edited(run: Path) -> bool:
    """Return whether a run, or the run.txt of a directory, differs from the recorded one."""
    file = run / PRIMARY_RUN_FILE if run.is_dir() else run
    entry = read_record(file.parent / FINGERPRINT_FILE).files.get(file.name)
    return entry is not None and file.is_file() and entry.xxh3 != compute_xxh3(file)


def read_record(file: Path) -> Record:
    """Read a record; return an empty one if it is missing or, with a warning, damaged."""
    try:
        return msgspec.json.decode(read_regular(file) if file.exists() else b"{}", type=Record)
    except (OSError, *DECODING_ERRORS) as error:
        message = "%s: damaged (%s); the origin of all files of this directory is unknown"
        log.warning(message, file, error)
        return Record()


def find_intact(path: Path, read: Callable[[Path], T]) -> T | None:
    """Return what `read` returns; None if the path is absent or, with a warning, damaged."""
    try:
        return read(path)
    except (OSError, ValueError) as error:
        if os.path.lexists(path):
            cause = getattr(error, "strerror", None) or error
            log.warning("%s: %s; rebuilding it", path, cause)
        return None


def verify_checksum(file: Path, checksum: str, follow_links: bool = True) -> None:
    """Raise ValueError if a file has another checksum, OSError as `open_regular` does."""
    if compute_xxh3(file, follow_links) != checksum:
        raise ValueError(f"checksum mismatch of {file.name}")


def compute_xxh3(file: Path, follow_links: bool = True) -> str:
    """Compute the checksum of a regular file; raise OSError as `open_regular` does."""
    with open_regular(file, follow_links) as stream:
        return hashlib.file_digest(stream, xxhash.xxh3_128).hexdigest()
