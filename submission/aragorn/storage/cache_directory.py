"""Cache rankings, scores, indexes and documents, each in a directory named after the hash of its
cache key."""

import hashlib
import logging
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from aragorn.errors import OutputError
from aragorn.signals import on_interrupt
from aragorn.storage.artifact_store import SharedStore
from aragorn.storage.atomic_files import create_directory
from aragorn.storage.locks import lock_directory

log = logging.getLogger(__name__)

TEMPORARY_PREFIX = ".aragorn-work-"
# marks a temporary directory that this program created and may delete
MARKER_FILE = "made-by-aragorn"


class CacheDirectory:
    """Context manager of a cache directory, which several processes may use at the same time.

    Args:
        directory: Cache directory; None: a temporary directory, removed on exit.
        fallback_dir: Parent of the temporary directory if the system provides no directory for
            temporary files.
    """

    def __init__(self, directory: Path | None, fallback_dir: Path) -> None:
        self._requested, self._fallback_dir = directory, fallback_dir

    def __enter__(self) -> Self:
        """Create the directory; raise OutputError if it cannot be created.

        If the system provides no temporary directory, `tempfile` uses this directory from now on.
        """
        with ExitStack() as stack:
            self.directory = self._requested or Path(
                stack.enter_context(_create_temporary(self._fallback_dir))
            )
            create_directory(self.directory)
            if self._requested:
                stack.enter_context(lock_directory(self.directory, shared=True))
            else:
                (self.directory / MARKER_FILE).touch()
                stack.enter_context(
                    on_interrupt(lambda: shutil.rmtree(self.directory, ignore_errors=True))
                )
            try:
                tempfile.gettempdir()
            except OSError:  # torch requires a temporary directory when imported
                tempfile.tempdir = str(self.directory)
            self._exit_stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exit_stack.close()

    def has_store(self, name: str) -> bool:
        """Return whether there is a store of this name, with any key."""
        return any(self.directory.glob(f"{name}-*"))

    def open_store(self, name: str, key: str) -> SharedStore:
        """Open the artifact store of a cache key, in a subdirectory whose name begins with
        `name`."""
        path = self.directory / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        return SharedStore(path, key)


def remove_stale_directories(directory: Path) -> None:
    """Remove the temporary cache directories of killed processes."""
    for path in directory.glob(f"{TEMPORARY_PREFIX}*"):
        if (path / MARKER_FILE).is_file():
            shutil.rmtree(path, ignore_errors=True)


def _create_temporary(fallback_dir: Path) -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, ignore_cleanup_errors=True)
    except OSError as error:  # e.g. a container with a read-only root
        log.info(
            "Using %s for temporary files: this system provides no temporary directory (%s)",
            fallback_dir,
            error.strerror,
        )
    try:
        return tempfile.TemporaryDirectory(
            prefix=TEMPORARY_PREFIX, dir=fallback_dir, ignore_cleanup_errors=True
        )
    except OSError as error:
        raise OutputError(
            f"{fallback_dir}: no writable temporary directory ({error.strerror}); set --cache-dir"
        ) from None
