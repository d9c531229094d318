"""Text files as they are published."""

from __future__ import annotations

from pathlib import Path

from submission.disk.files import read_regular
from submission.errors import InputError, unreadable


def text_of(file: Path) -> str:
    """The text of a file. Raises InputError: it cannot be read, or is not UTF-8, which is named by its line."""
    try:
        return read_regular(file).decode("utf-8")
    except OSError as error:
        raise unreadable(error) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{file}, line {line}: not UTF-8 ({error.reason}); restore the file") from None
