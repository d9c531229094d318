"""Lock directories and files by flock(2); a lock ends with its process."""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from aragorn.errors import OutputError
from aragorn.storage.atomic_files import build_unwritable_directory_error, remove

TEMPORARY_PREFIX = ".aragorn-work-"
# marks a temporary directory that this program created and may delete
MARKER_FILE = "made-by-aragorn"

log = logging.getLogger(__name__)

# of a lock that another process holds; which one depends on the file system
BUSY_ERRORS = (BlockingIOError, PermissionError)


@contextmanager
def lock_directory(directory: Path, shared: bool = False) -> Iterator[bool]:
    """Hold an exclusive or shared lock on a directory; yield whether it is locked.

    It is not, with a warning, if the file system does not support locks. Raises OutputError if the
    directory cannot be opened, or another process holds a conflicting lock.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise build_unwritable_directory_error(directory, error) from None
    with ExitStack() as stack:
        stack.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            is_locked = True
        except BUSY_ERRORS:
            fix = "wait or choose another directory"
            raise OutputError(f"{directory}: in use by another process; {fix}") from None
        except OSError as error:  # e.g. Lustre or NFS without lock support
            message = "%s: cannot be locked (%s); use it in only one process at a time"
            log.warning(message, directory, error.strerror)
            is_locked = False
        yield is_locked


@contextmanager
def lock_file(file: Path) -> Iterator[bool]:
    """Create a file, lock it, and remove it after the block; yield whether it could be locked."""
    # writable, because NFS refuses exclusive locks on others
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    is_locked = False
    with ExitStack() as stack:
        with suppress(OSError):
            while not is_locked:
                stack.close()
                descriptor = os.open(file, flags, 0o666)
                stack.callback(os.close, descriptor)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BUSY_ERRORS:
                    log.info("Waiting for another process that uses %s", file)
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                is_locked = os.fstat(descriptor).st_nlink > 0  # else its owner has removed it
            stack.callback(remove, file)
        yield is_locked


def remove_stale_directories(directory: Path) -> None:
    """Remove the temporary directories of this user's killed processes, which are not locked."""
    for path in directory.glob(f"{TEMPORARY_PREFIX}*/{MARKER_FILE}"):
        parent = path.parent
        with suppress(OSError, OutputError):
            if parent.lstat().st_uid == os.geteuid() and not parent.is_symlink():
                with lock_directory(parent) as is_locked:
                    if is_locked:
                        remove(parent)
