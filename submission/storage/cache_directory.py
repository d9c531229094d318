"""Cache directory: rankings, batch scores, indexes and documents, each under the hash of its key."""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from submission.errors import OutputError
from submission.signals import when_stopped
from submission.storage.artifact_store import Kept
from submission.storage.atomic_files import make_directory, remove_leftovers
from submission.storage.locks import locked

log = logging.getLogger(__name__)

TEMPORARY = ".aragorn-work-"
MARK = "made-by-aragorn"  # marks directories that may be deleted


class Work:
    """Persistent or temporary cache directory, locked while in use (context manager)."""

    def __init__(self, directory: Path | None, last_resort: Path) -> None:
        """Create nothing before entering.

        Args:
            directory: Cache directory; None: a temporary one, removed on exit.
            last_resort: Parent of the temporary directory if the system has none.
        """
        self._given, self._last_resort = directory, last_resort

    def __enter__(self) -> Work:
        """Create and lock the directory.

        Raises:
            OutputError: If it cannot be created or written, or is in use.
        """
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
        """Open the artifact store of a cache key.

        Raises:
            OutputError: If it cannot be created.
        """
        path = self.directory / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        make_directory(path)
        remove_leftovers(path)  # only this process uses the store
        return Kept(path, {"key": key}, overwrite=True)


def remove_left(directory: Path) -> None:
    """Remove temporary directories of killed processes."""
    for path in directory.glob(f"{TEMPORARY}*"):
        if (path / MARK).is_file():
            shutil.rmtree(path, ignore_errors=True)


def _temporary(last_resort: Path) -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix=TEMPORARY, ignore_cleanup_errors=True)
    except OSError:  # e.g. a container with a read-only root
        log.info("no temporary directory on this system, using %s", last_resort)
    try:
        return tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=last_resort, ignore_cleanup_errors=True)
    except OSError as error:
        raise OutputError(f"{last_resort}: no writable temporary directory ({error.strerror}); set --work") from None


def _lend_to_libraries(directory: Path) -> None:
    """Let libraries use this directory for temporary files if the system has none (torch needs one on import)."""
    try:
        tempfile.gettempdir()
    except OSError:
        tempfile.tempdir = str(directory)
