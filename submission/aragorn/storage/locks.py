"""Lock directories against concurrent processes."""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aragorn.errors import OutputError
from aragorn.storage.atomic_files import build_unwritable_directory_error

log = logging.getLogger(__name__)


@contextmanager
def lock_directory(directory: Path, shared: bool = False) -> Iterator[None]:
    """Hold an exclusive or shared lock on a directory; log a warning if its file system does not
    support locks.

    Raises:
        OutputError: If the directory cannot be opened, or another process holds a conflicting lock.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise build_unwritable_directory_error(directory, error) from None
    try:
        try:
            operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            try:
                fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                # which of the two depends on the file system
                raise OutputError(
                    f"{directory}: in use by another process; wait or choose another directory"
                ) from None
        except OSError as error:  # e.g. Lustre or NFS without lock support
            log.warning(
                "%s: cannot be locked (%s); use it in only one process at a time",
                directory,
                error.strerror,
            )
        yield
    finally:
        os.close(descriptor)
