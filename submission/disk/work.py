"""The working directory: lists, scores of finished parts, indexes and texts, each under the hash of all that decides it."""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from submission.disk.files import make_directory, remove_leftovers
from submission.disk.kept import Kept
from submission.disk.locked import locked
from submission.errors import OutputError
from submission.interrupted import when_stopped

log = logging.getLogger(__name__)

TEMPORARY = ".aragorn-work-"
MARK = "made-by-aragorn"  # a file that tells such a directory from another of a like name


class Work:
    """A directory that outlives the process, or a temporary one; held while in use. A context manager."""

    def __init__(self, directory: Path | None, last_resort: Path) -> None:
        """Nothing is made before it is entered.

        Args:
            directory: None: a temporary directory, removed at the end.
            last_resort: a directory for the temporary one where the machine has no place for such.
        """
        self._given, self._last_resort = directory, last_resort

    def __enter__(self) -> Work:
        """Raises OutputError: the directory cannot be made or written, or another process has it."""
        with ExitStack() as stack:
            self.directory = self._given or Path(stack.enter_context(_temporary(self._last_resort)))
            make_directory(self.directory)
            if not self._given:
                (self.directory / MARK).touch()
                stack.enter_context(when_stopped(lambda: shutil.rmtree(self.directory, ignore_errors=True)))
            stack.enter_context(locked(self.directory))
            _lend_to_libraries(self.directory)
            self._open = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()

    def place(self, name: str, key: str) -> Kept:
        """The place for what `key` decides. Raises OutputError."""
        place = self.directory / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        make_directory(place)
        remove_leftovers(place)  # the place is ours: whatever they are of
        return Kept(place, {"key": key}, overwrite=True)


def remove_left(directory: Path) -> None:
    """Remove the temporary directories that processes left which were killed."""
    for work in directory.glob(f"{TEMPORARY}*"):
        if (work / MARK).is_file():
            shutil.rmtree(work, ignore_errors=True)


def _temporary(last_resort: Path) -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix=TEMPORARY, ignore_cleanup_errors=True)
    except OSError:  # a container with a read-only root and nothing writable but its output
        log.info("no place for temporary files but %s", last_resort)
    try:
        return tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=last_resort, ignore_cleanup_errors=True)
    except OSError as error:
        raise OutputError(f"{last_resort}: no place for temporary files ({error.strerror}); give --work DIR") from None


def _lend_to_libraries(directory: Path) -> None:
    """Where the machine has no place for temporary files, let libraries use this one: torch looks for one when it is loaded."""
    try:
        tempfile.gettempdir()
    except OSError:
        tempfile.tempdir = str(directory)
