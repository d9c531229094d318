"""A directory that one process works in at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from submission.errors import OutputError


@contextmanager
def locked(directory: Path, shared: bool = False) -> Iterator[None]:
    """Hold a directory, alone or with others that share it.

    Raises:
        OutputError: another process holds it otherwise, or it cannot be opened.
    """
    try:
        lock = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise OutputError(f"{directory}: not a directory to write to ({error.strerror}); choose another") from None
    try:
        try:
            fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"{directory}: another process works there; wait for it or choose another directory") from None
        except OSError as error:  # a mount without locks
            raise OutputError(f"{directory}: cannot be held ({error.strerror}); choose another directory") from None
        yield
    finally:
        os.close(lock)
