"""Write the runs of a single input to an output directory, atomically and locked against other
processes."""

import logging
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from aragorn.cache import remove_stale_directories
from aragorn.errors import OutputError
from aragorn.io.files import Inputs
from aragorn.io.runs import find_run
from aragorn.signals import on_interrupt
from aragorn.storage.atomic_files import (
    build_unwritable_error,
    create_directory,
    get_printable_name,
    read_regular,
    remove_stale_files,
)
from aragorn.storage.locks import lock_directory
from aragorn.storage.recorded_files import RecordedFiles, compute_xxh3, read_record

log = logging.getLogger(__name__)

FINGERPRINT_FILE = "fingerprint.json"
PRIMARY_RUN_FILE = "run.txt"  # the run of the primary system
METADATA_FILE = "ir-metadata.yml"


def list_other_runs(path: Path) -> list[str]:
    """Return the names of the .txt files in a directory besides the run that is read from it; []
    for a run file."""
    run = find_run(path)
    names = [get_printable_name(file) for file in Inputs([path]).find("*.txt")]
    return [name for name in names if name != run.name] if run != path else []


def is_edited(run: Path) -> bool:
    """Return whether a run file, or the run.txt of a directory, differs from the one that was
    recorded there."""
    file = run / PRIMARY_RUN_FILE if run.is_dir() else run
    entry = read_record(file.parent / FINGERPRINT_FILE).files.get(file.name)
    return entry is not None and file.is_file() and entry.xxh3 != compute_xxh3(file)


def _check_writable(directory: Path) -> None:
    """Raise OutputError if no file can be created in a directory."""
    try:
        with tempfile.TemporaryFile(dir=directory):  # new, and without a name where possible
            pass
    except OSError as error:
        raise build_unwritable_error(directory, error) from None


class RunDirectory:
    """Context manager of an output directory with runs and, in fingerprint.json, the fingerprint of
    their input."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Self:
        """Create and lock the directory; raise OutputError if it is not writable or another process
        uses it."""
        with ExitStack() as stack:
            create_directory(self.path)
            stack.enter_context(lock_directory(self.path))
            stack.enter_context(on_interrupt(lambda: remove_stale_files(self.path)))
            remove_stale_directories(self.path)
            _check_writable(self.path)
            self._exit_stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._exit_stack.close()

    def resume(
        self, fingerprint: Mapping[str, str], file_names: Iterable[str], overwrite: bool
    ) -> None:
        """Load the record of completed runs for this fingerprint, or start a new record.

        Args:
            fingerprint: Input and settings that all runs of the directory have in common.
            file_names: Names of the run files that may be written.
            overwrite: Whether runs with another fingerprint or cache key may be replaced.

        Raises:
            OutputError: If the directory contains runs with another fingerprint, or files of these
                names that are not recorded, and `overwrite` is false.
        """
        self._files = RecordedFiles(
            self.path, fingerprint, overwrite, FINGERPRINT_FILE, [PRIMARY_RUN_FILE, *file_names]
        )
        remove_stale_files(self.path, {METADATA_FILE})
        self._overwrite = overwrite

    def has_run(self, name: str) -> bool:
        """Return whether the record contains a run file."""
        return name in self._files

    def is_up_to_date(self, name: str, cache_key: str) -> bool:
        """Return whether a run file exists, is intact and has the key `cache_key` (of code,
        checkpoints, device and precision).

        Raises:
            OutputError: If the file has another key, and `resume` was called without `overwrite`.
        """
        recorded_key = self._files.get_valid_key(name)
        if recorded_key not in (None, cache_key) and not self._overwrite:
            cause = "made with another checkpoint, code, device or precision"
            raise OutputError(
                f"{self.path / name}: {cause}; choose another --output or pass --overwrite"
            )
        return recorded_key == cache_key

    def read_run(self, name: str) -> str:
        return read_regular(self.path / name).decode()

    def write_run(self, name: str, content: str, cache_key: str) -> None:
        """Write a run file atomically and record its cache key."""
        self._files.write(name, content, cache_key)

    def write_primary_run(self, name: str, content: str, cache_key: str) -> None:
        """Write run.txt, a copy of the run file `name`, and log if it was a copy of another run."""
        recorded_key = self._files.get_valid_key(PRIMARY_RUN_FILE)
        previous_name = recorded_key.split()[0] if recorded_key else name
        if previous_name != name:
            log.info(
                "%s: now a copy of %s, was %s", self.path / PRIMARY_RUN_FILE, name, previous_name
            )
        self.write_run(PRIMARY_RUN_FILE, content, f"{name} {cache_key}")
