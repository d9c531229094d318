"""Write and query SQLite files in the cache directory."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from submission.errors import OutputError


@contextmanager
def create_database(file: Path) -> Iterator[sqlite3.Connection]:
    """Create a database and commit at the end of the block; raise IntegrityError if a key is not unique, OSError otherwise."""
    try:
        with closing(sqlite3.connect(file)) as database:
            database.executescript("pragma journal_mode = off; pragma synchronous = off")
            yield database
            database.commit()
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise OSError(str(error)) from None


def fetch_rows(file: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a query and return its rows; raise OutputError if the file is unreadable."""
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
            return database.execute(statement, values).fetchall()
    except sqlite3.Error as error:
        raise OutputError(f"{file}: cannot be read ({error}); delete {file.parent} to rebuild it") from None
