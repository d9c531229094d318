"""Store files that are built once, and rebuilt if they are damaged or their inputs change."""

import hashlib
import io
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import xxhash

from aragorn.errors import OutputError, abbreviate_list, pluralise
from aragorn.storage import atomic_files
from aragorn.storage.atomic_files import (
    build_unwritable_error,
    open_regular,
    read_regular,
    remove_if_possible,
    write_atomic,
)
from aragorn.storage.locks import lock_directory

log = logging.getLogger(__name__)

T = TypeVar("T")

MANIFEST = "manifest.json"
JOURNAL_THRESHOLD = 100  # up to this number of files, each new one rewrites the manifest
DECODING_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class ManifestEntry(msgspec.Struct):
    """Record of a built file, by which a damaged or outdated file is recognised."""

    key: str
    xxh3: str  # checksum (128 bits)


class JournalEntry(msgspec.Struct):
    """Line of a journal: an entry that the manifest does not contain yet."""

    name: str
    file: ManifestEntry


class Manifest(msgspec.Struct):
    """Record of the files that a directory contains, and of the inputs that they were built
    from."""

    inputs: dict[str, Any] = msgspec.field(default_factory=dict)  # cache key of all files
    files: dict[str, ManifestEntry] = msgspec.field(default_factory=dict)  # by file name


class ArtifactStore:
    """Directory of built files with a manifest; a file without an entry counts as missing.

    With more than JOURNAL_THRESHOLD files, new entries are appended to a journal. It is merged into
    the manifest when it contains half of all entries, and by the first update after the directory
    is opened again.
    """

    def __init__(
        self,
        directory: Path,
        inputs: Mapping[str, Any],
        overwrite: bool = False,
        manifest_name: str = MANIFEST,
        expected_names: Iterable[str] = (),
    ) -> None:
        """Open a directory, reusing the files that were built from the same inputs.

        Args:
            directory: Directory of the files; created if missing.
            inputs: Cache key of all files, JSON-serialisable.
            overwrite: Whether to replace files built from other inputs; they are removed when the
                first new file is written.
            manifest_name: File name of the manifest.
            expected_names: Names of the files to be written; existing ones count as foreign if
                there is no manifest.

        Raises:
            OutputError: If `overwrite` is false and the directory contains files built from other
                inputs or foreign files.
        """
        atomic_files.create_directory(directory)
        self.directory, self._manifest_path = directory, directory / manifest_name
        self._journal_path = _get_journal_path(self._manifest_path)
        # List the directory only once: the cost of a write must not grow with the number of files.
        self._stale_files = atomic_files.find_temporary_files(directory)
        self._load_manifest(inputs, overwrite, expected_names)

    def _load_manifest(
        self, inputs: Mapping[str, Any], overwrite: bool, expected_names: Iterable[str]
    ) -> None:
        directory, previous_manifest = self.directory, read_manifest(self._manifest_path)
        expected_names = {*expected_names, *previous_manifest.files}
        existing_names = sorted(expected_names & {file.name for file in directory.iterdir()})
        changed_inputs = [
            name for name, value in inputs.items() if previous_manifest.inputs.get(name) != value
        ]
        if existing_names and changed_inputs and not overwrite:
            origin = (
                f"made with another {' and '.join(changed_inputs)}"
                if previous_manifest.files
                else "of unknown origin"
            )
            advice = "choose another directory, or use --overwrite, which removes them"
            raise OutputError(
                f"{directory}: contains {pluralise(len(existing_names), 'file')} {origin} "
                f"({abbreviate_list(existing_names)}); {advice}"
            )
        for name in {*expected_names, self._manifest_path.name}:
            self._remove_stale(name)
        self._outdated_names = existing_names if changed_inputs else []
        # The first update merges an existing journal into the manifest.
        self._journal_length = len(previous_manifest.files) if self._journal_path.exists() else 0
        self._manifest = Manifest(dict(inputs), {} if changed_inputs else previous_manifest.files)

    def __contains__(self, name: str) -> bool:
        """Return whether the manifest has an entry for a file."""
        return name in self._manifest.files

    def get_valid_key(self, name: str) -> str | None:
        """Return the key that a file was written with, or None if the file is missing or
        damaged."""
        return self._manifest.files[name].key if self._read_valid(name, compute_xxh3, str) else None

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if the file is missing or damaged."""
        return self._read_valid(name, read_regular, xxhash.xxh3_128_hexdigest)

    def write(self, name: str, content: bytes | str, key: str = "") -> None:
        """Write a file atomically, with the key that `get_valid_key` returns."""
        data = content.encode() if isinstance(content, str) else content
        with self.lock():
            self._write_files([name], lambda file: file.write_bytes(data), key)

    def register(self, name: str, xxh3: str) -> None:
        """Add a file that another process wrote with `write_artifact`, and its checksum, to the
        manifest."""
        try:
            self._remove_stale(name)
            self._update_manifest(name, ManifestEntry("", xxh3))
        except OSError as error:
            raise build_unwritable_error(self.directory, error) from None

    def lock(self) -> AbstractContextManager[bool]:
        """Let no other process build files; yield whether another process may have built files
        since the last reading."""
        return nullcontext(False)

    def load_or_build(self, name: str, build: Callable[[], bytes]) -> bytes:
        """Return the content of a file; build it if missing or damaged."""
        data = self.read(name)
        if data is None:
            with self.lock() as is_reloaded:
                data = self.read(name) if is_reloaded else None
                if data is None:
                    data = build()
                    self.write(name, data)
        return data

    def load_or_build_array(self, name: str, build: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the array in a .npy file; build it if missing or damaged."""
        return decode_npy(self.load_or_build(name, lambda: encode_npy(build())))

    def build_files(self, names: Sequence[str], write: Callable[..., object]) -> list[Path]:
        """Return the paths of files; if one is missing or damaged, rebuild all: `write` receives a
        temporary path per file."""
        if any(self.get_valid_key(name) is None for name in names):
            with self.lock() as is_reloaded:
                if not is_reloaded or any(self.get_valid_key(name) is None for name in names):
                    self._write_files(names, write, "")
        return [self.directory / name for name in names]

    def _write_files(self, names: Sequence[str], write: Callable[..., object], key: str) -> None:
        """Write files under temporary names, add them to the manifest, and rename them.

        An interruption between the last two steps leaves a checksum mismatch, so that the file is
        rebuilt.
        """
        for name in names:
            self._remove_stale(name)
        temporary_files = [atomic_files.get_temporary_path(self.directory / name) for name in names]
        try:
            write(*temporary_files)
            for file, name in zip(temporary_files, names, strict=True):
                with file.open("rb") as stream:
                    os.fsync(stream.fileno())
                self._update_manifest(name, ManifestEntry(key, compute_xxh3(file)))
                file.replace(self.directory / name)
        except OSError as error:
            raise build_unwritable_error(self.directory, error) from None
        finally:
            for file in temporary_files:
                remove_if_possible(file)

    def _remove_stale(self, name: str) -> None:
        for path in self._stale_files.pop(name, []):
            remove_if_possible(path)

    def _read_valid(
        self, name: str, read: Callable[[Path], T], compute_checksum: Callable[[T], str]
    ) -> T | None:
        """Read a file of the manifest; return None if it is missing or, with a warning, if it is
        damaged."""
        if name not in self._manifest.files:
            return None
        try:
            value = read(self.directory / name)
            if compute_checksum(value) == self._manifest.files[name].xxh3:
                return value
            cause = "checksum mismatch"
        except FileNotFoundError:
            return None
        except OSError as error:  # not a readable regular file
            cause = str(error.strerror)
        log.warning("%s: %s; rebuilding the file", self.directory / name, cause)
        return None

    def _update_manifest(self, name: str, entry: ManifestEntry) -> None:
        """Add an entry: rewrite the manifest or append to the journal, so that adding n files takes
        O(n) time."""
        if self._outdated_names:
            log.info(
                "%s: removing outdated files: %s", self.directory, ", ".join(self._outdated_names)
            )
            remove_if_possible(self._journal_path)
            for outdated_name in self._outdated_names:
                remove_if_possible(self.directory / outdated_name)
        self._outdated_names = []
        self._manifest.files[name] = entry
        entry_count, journal_length = len(self._manifest.files), self._journal_length
        if entry_count > max(JOURNAL_THRESHOLD, 2 * journal_length):
            # if appending fails, the next update rewrites the manifest
            self._journal_length = entry_count
            _append_entry(self._journal_path, JournalEntry(name, entry))
            self._journal_length = journal_length + 1
        else:
            data = msgspec.json.format(
                msgspec.json.encode(self._manifest, order="sorted"), indent=1
            )
            write_atomic(self._manifest_path, data + b"\n")
            remove_if_possible(self._journal_path)
            self._journal_length = 0


class SharedStore(ArtifactStore):
    """Store that several processes use at the same time: all may read, while one builds and the
    others wait for its files."""

    def __init__(self, directory: Path, key: str) -> None:
        """Open the directory of a cache key, whose path no other key has."""
        super().__init__(directory, {"key": key}, overwrite=True)
        self._is_locked = False

    @contextmanager
    def lock(self) -> Iterator[bool]:
        if self._is_locked:
            yield False
            return
        with lock_directory(self.directory, wait=True):
            atomic_files.remove_stale_files(self.directory)
            self._load_manifest(self._manifest.inputs, True, ())
            self._is_locked = True
            try:
                yield True
            finally:
                self._is_locked = False

    def _remove_stale(self, name: str) -> None:
        """Keep temporary files, which another process may be writing, until the directory is
        locked."""


def write_artifact(file: Path, content: bytes) -> str:
    """Write a file that another process adds to the manifest with `ArtifactStore.register`; return
    its checksum."""
    write_atomic(file, content)
    return xxhash.xxh3_128_hexdigest(content)


def write_journaled_artifact(file: Path, content: bytes) -> None:
    """Write a file, and append its entry to the journal of its directory; safe for concurrent
    processes."""
    entry = ManifestEntry("", write_artifact(file, content))
    try:
        _append_entry(_get_journal_path(file.with_name(MANIFEST)), JournalEntry(file.name, entry))
    except OSError as error:
        raise build_unwritable_error(file, error) from None


def read_manifest(file: Path) -> Manifest:
    """Read a manifest, updated by its journal; return an empty manifest if it is missing or
    damaged."""
    journal = _get_journal_path(file)
    try:
        manifest = msgspec.json.decode(_read_if_exists(file) or b"{}", type=Manifest)
        *lines, _ = _read_if_exists(journal).split(b"\n")  # drop an incomplete last line
    except (OSError, *DECODING_ERRORS) as error:
        log.warning(
            "%s: damaged (%s); the origin of all files of this directory is unknown", file, error
        )
        return Manifest()
    for line in filter(None, lines):
        try:
            entry = msgspec.json.decode(line, type=JournalEntry)
            manifest.files[entry.name] = entry.file
        except DECODING_ERRORS as error:
            log.warning("%s: damaged entry (%s); rebuilding the file of the entry", journal, error)
    return manifest


def encode_npy(array: np.ndarray) -> bytes:
    """Serialise an array in .npy format."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def decode_npy(content: bytes) -> np.ndarray:
    """Deserialise an array in .npy format."""
    array: np.ndarray = np.load(io.BytesIO(content), allow_pickle=False)
    return array


def _append_entry(journal: Path, entry: JournalEntry) -> None:
    """Append an entry, preceded by a line break that ends the incomplete line of a killed
    process."""
    with journal.open("ab", buffering=0) as stream:
        stream.write(b"\n" + msgspec.json.encode(entry) + b"\n")
        os.fsync(stream.fileno())


def _get_journal_path(manifest: Path) -> Path:
    return manifest.with_name(f"{manifest.name}.journal")


def _read_if_exists(file: Path) -> bytes:
    return read_regular(file) if file.exists() else b""


def compute_xxh3(file: Path) -> str:
    with open_regular(file) as stream:
        return hashlib.file_digest(stream, xxhash.xxh3_128).hexdigest()
