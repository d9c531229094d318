"""Lock directories against concurrent processes."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from submission.errors import OutputError
from submission.storage.atomic_files import build_unwritable_directory_error


@contextmanager
def lock_directory(directory: Path, shared: bool = False) -> Iterator[None]:
    """Hold an exclusive or shared lock on a directory; raise OutputError if another process holds a conflicting lock."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise build_unwritable_directory_error(directory, error) from None
    try:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"{directory}: in use by another process; wait or choose another directory") from None
        except OSError as error:  # file system without lock support
            raise OutputError(f"{directory}: cannot be locked ({error.strerror}); choose another directory") from None
        yield
    finally:
        os.close(descriptor)
