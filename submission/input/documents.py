"""The documents of an input: read from its files, or found in the working directory where an earlier execution kept them.

documents.sqlite    documents(docno, conclusion, premise), all lengths
collection.msgpack  the docnos of the collection, ascending
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from contextlib import closing
from functools import cached_property
from pathlib import Path

import msgspec
import pandas as pd

from submission.disk.code import code_fingerprint
from submission.disk.kept import Kept
from submission.disk.work import Work
from submission.errors import OutputError
from submission.input.collection import refuse_empty
from submission.input.directory import Input

DOCUMENTS, COLLECTION = "documents.sqlite", "collection.msgpack"
COLUMNS = ["docno", "conclusion", "premise"]


class Documents(ABC):
    """All documents, and which of them belong to the collection."""

    shortest: int  # words that a premise in the collection has at least, see `Form`

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of documents, of all lengths."""

    @cached_property
    def collection(self) -> list[str]:
        """The docnos of what is retrieved from, the long enough documents, ascending. Raises InputError: there are none."""
        found = self._docnos()
        if not found:
            refuse_empty(self._collected(), self.size, self.shortest)
        return found

    def collected(self, may_be_empty: bool = False) -> pd.DataFrame:
        """The collection `docno conclusion premise`, in no particular order. Raises InputError: there is nothing in it."""
        found = self._collected()
        if not may_be_empty:
            refuse_empty(found, self.size, self.shortest)
        return found

    @abstractmethod
    def _docnos(self) -> list[str]:
        """The docnos of the collection, ascending; none if it is empty."""

    @abstractmethod
    def _collected(self) -> pd.DataFrame:
        """The collection, empty or not."""

    @abstractmethod
    def texts(self, docnos: Collection[str]) -> pd.DataFrame:
        """Return `docno conclusion premise` of those of some docnos that exist, in any order."""

    def unknown(self, docnos: Iterable[str]) -> set[str]:
        """Return the docnos that no document has."""
        asked = set(docnos)
        return asked - set(self.texts(asked)["docno"])


class ReadDocuments(Documents):
    """Documents read from the input's files."""

    def __init__(self, source: Input) -> None:
        """Open the input; files are read when they are needed."""
        self._source, self.shortest = source, source.form.shortest_premise

    @property
    def size(self) -> int:
        return len(self._source.documents)

    def _docnos(self) -> list[str]:
        return sorted(self._source.collection["docno"])

    def _collected(self) -> pd.DataFrame:
        return self._source.collection

    def texts(self, docnos: Collection[str]) -> pd.DataFrame:
        rows = self._rows.get_indexer(pd.Index(list(docnos), dtype=object))
        return self._source.documents.iloc[rows[rows >= 0]]

    @cached_property
    def _rows(self) -> pd.Index:
        """Where a docno is: without it, the few documents of a part would be looked for among all, part by part."""
        docnos: pd.Index = pd.Index(self._source.documents["docno"])
        return docnos


class KeptDocuments(Documents):
    """Documents kept in the working directory."""

    def __init__(self, kept: Kept, shortest: int) -> None:
        """Both files must be there."""
        self._kept, self.shortest = kept, shortest

    @cached_property
    def size(self) -> int:
        return int(self._query("select count(*) from documents")[0][0])

    def _docnos(self) -> list[str]:
        return msgspec.msgpack.decode((self._kept.directory / COLLECTION).read_bytes(), type=list[str])

    def _collected(self) -> pd.DataFrame:
        return self.texts(self._docnos())

    def texts(self, docnos: Collection[str]) -> pd.DataFrame:
        asked = msgspec.json.encode(list(docnos)).decode()
        rows = self._query("select * from documents where docno in (select value from json_each(?))", asked)
        return pd.DataFrame(rows, columns=COLUMNS, dtype=object)

    def unknown(self, docnos: Iterable[str]) -> set[str]:
        """The texts stay where they are."""
        asked = msgspec.json.encode(list(docnos)).decode()
        rows = self._query("select value from json_each(?) where value not in (select docno from documents)", asked)
        return {row[0] for row in rows}

    def _query(self, statement: str, *values: str) -> list[tuple[str, ...]]:
        file = self._kept.directory / DOCUMENTS
        try:
            with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
                return database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise OutputError(f"{file}: cannot be read ({error}); remove {self._kept.directory}") from None


def open_documents(source: Input, work: Work) -> Documents:
    """The documents of an input: from the working directory if it has them, else from the files, and then kept there.

    Raises:
        InputError: they cannot be read. OutputError: the directory cannot be written.
    """
    if not work.lasting:
        return ReadDocuments(source)
    kept = work.place("documents", f"{source.corpus_fingerprint} {code_fingerprint()}")
    if kept.key(DOCUMENTS) is not None and kept.key(COLLECTION) is not None:
        return KeptDocuments(kept, source.form.shortest_premise)
    read = ReadDocuments(source)
    kept.make([DOCUMENTS], lambda file: _write(source.documents, file))
    kept.write(COLLECTION, msgspec.msgpack.encode(read._docnos()))
    return read


def _write(documents: pd.DataFrame, file: Path) -> None:
    """Raises OSError."""
    try:
        with closing(sqlite3.connect(file)) as database:
            database.executescript("pragma journal_mode = off; pragma synchronous = off; pragma page_size = 16384")
            database.execute("create table documents (docno text, conclusion text, premise text)")
            rows = zip(*(documents[column] for column in COLUMNS), strict=True)
            database.executemany("insert into documents values (?, ?, ?)", rows)
            database.execute("create unique index docnos on documents (docno)")  # at the end: sorted once
            database.commit()
    except sqlite3.Error as error:
        raise OSError(str(error)) from None
