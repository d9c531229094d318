"""What other topics on the same corpus need of it, kept in the working directory: the conclusions' index, and the premises.

conclusions.msgpack   the index
premises.sqlite       documents(docno, premise), all lengths; written first, so that where there is an index there are premises
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import msgspec
import pandas as pd

from submission.errors import OutputError
from submission.files import write_whole
from submission.retrieval.bm25 import ConclusionIndex

INDEX, PREMISES = "conclusions.msgpack", "premises.sqlite"


class Store:
    """A directory with an index and premises, or one that waits for them."""

    def __init__(self, directory: Path) -> None:
        """The directory must be of this very corpus and code."""
        self._directory = directory

    @property
    def filled(self) -> bool:
        """Whether everything is there."""
        return (self._directory / INDEX).exists()

    def fill(self, index: ConclusionIndex, documents: pd.DataFrame) -> None:
        """Write everything, documents being `docno premise`. Raises OutputError."""
        file = self._directory / PREMISES
        new = file.with_name(f".{file.name}.part")
        try:
            new.unlink(missing_ok=True)
            with closing(sqlite3.connect(new)) as database:
                database.executescript("pragma journal_mode = off; pragma synchronous = off; pragma page_size = 16384")
                database.execute("create table documents (docno text, premise text)")
                rows = zip(documents["docno"], documents["premise"], strict=True)
                database.executemany("insert into documents values (?, ?)", rows)
                database.execute("create unique index docnos on documents (docno)")  # at the end: sorted once
                database.commit()
            with new.open("rb") as stream:
                os.fsync(stream.fileno())
            new.replace(file)
        except (sqlite3.Error, OSError) as error:
            new.unlink(missing_ok=True)
            raise OutputError(f"{file}: cannot be written ({error}); free space or choose another --work") from None
        write_whole(self._directory / INDEX, index.dumps())

    def index(self) -> ConclusionIndex:
        """The index. Raises OutputError: damaged."""
        try:
            return ConclusionIndex.loads((self._directory / INDEX).read_bytes())
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise self._damaged(INDEX, error) from None

    def size(self) -> int:
        """The number of documents. Raises OutputError: damaged."""
        return int(self._query("select count(*) from documents")[0][0])

    def premises(self, docnos: Collection[str]) -> dict[str, str]:
        """Premises by docno. Raises OutputError: damaged."""
        return dict(self._query("select * from documents where docno in (select value from json_each(?))", list(docnos)))

    def _query(self, statement: str, *values: list[str]) -> list[tuple[str, str]]:
        file = self._directory / PREMISES
        try:
            with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
                return database.execute(statement, [msgspec.json.encode(value).decode() for value in values]).fetchall()
        except sqlite3.Error as error:
            raise self._damaged(PREMISES, error) from None

    def _damaged(self, name: str, error: Exception) -> OutputError:
        return OutputError(f"{self._directory / name}: damaged ({error}); remove {self._directory}")
