"""Manage the output directory of runs.

It is locked while in use, holds runs of one input, and files are written atomically.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from submission.errors import OutputError
from submission.storage.artifact_store import Kept
from submission.storage.atomic_files import make_directory, read_regular, remove_leftovers, write_whole
from submission.storage.cache_directory import remove_left
from submission.storage.locks import locked

log = logging.getLogger(__name__)

RECORD = "fingerprint.json"
RUN_FILE = "run.txt"  # the run of the primary system
METADATA = "ir-metadata.yml"


class Output:
    """An output directory: runs and, in fingerprint.json, what they were made from.

    Context manager: creates and locks the directory; unlocks it on exit.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __enter__(self) -> Output:
        """Create and lock the directory.

        Raises:
            OutputError: If it is not writable, or another process has locked it.
        """
        with ExitStack() as stack:
            make_directory(self.directory)
            stack.enter_context(locked(self.directory))
            remove_left(self.directory)
            probe_file = self.directory / ".writable"
            write_whole(probe_file, "")
            probe_file.unlink()
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.close()

    def begin(self, fingerprint: Mapping[str, str], names: Iterable[str], overwrite: bool) -> None:
        """Resume the runs recorded for this fingerprint, or start a new record.

        Args:
            fingerprint: Input and settings, the same for all runs of the directory.
            names: Run files that may be written.
            overwrite: Replace runs of another fingerprint.

        Raises:
            OutputError: If the directory holds runs of another or an unknown fingerprint, and overwrite is false.
        """
        self._kept = Kept(self.directory, fingerprint, overwrite, RECORD, [RUN_FILE, *names])
        remove_leftovers(self.directory, {METADATA})
        self._overwrite = overwrite

    def holds(self, name: str) -> bool:
        """Return whether the record contains a run file."""
        return name in self._kept

    def finished(self, name: str, key: str) -> bool:
        """Return whether a run file exists, is unchanged, and was made with this key (code, checkpoints, device and precision).

        Raises:
            OutputError: If it was made with another key, and overwrite is false.
        """
        recorded_key = self._kept.key(name)
        if recorded_key not in (None, key) and not self._overwrite:
            raise OutputError(
                f"{self.directory / name}: made with another checkpoint, code, device or precision; choose another --output or "
                "pass --overwrite"
            )
        return recorded_key == key

    def read(self, name: str) -> str:
        """Read a run file.

        Raises:
            OSError: If that fails.
        """
        return read_regular(self.directory / name).decode()

    def write(self, name: str, content: str, key: str) -> None:
        """Write a run file atomically and record its key.

        Raises:
            OutputError: If it cannot be written.
        """
        self._kept.write(name, content, key)
