"""The documents of an input: written to the working directory as they are read, or found there.

documents.sqlite    documents(docno, words, conclusion, premise), all lengths; words of the premise, counted to the shortest
collection.msgpack  the docnos of the collection, ascending
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from submission.disk.code import code_fingerprint
from submission.disk.work import Work
from submission.errors import InputError, OutputError
from submission.input.collection import counts, refuse_empty, tell
from submission.input.directory import Input, refuse

DOCUMENTS, COLLECTION = "documents.sqlite", "collection.msgpack"
COLUMNS = ["docno", "conclusion", "premise"]


class Documents:
    """All documents of an input, in files of the working directory; pickled, their place."""

    def __init__(self, directory: Path, shortest: int) -> None:
        """Both files must be there.

        Args:
            directory: of the files.
            shortest: words that a premise in the collection has at least, see `Form`.
        """
        self._directory, self._shortest = directory.absolute(), shortest

    def __reduce__(self) -> tuple[type[Documents], tuple[Path, int]]:
        return Documents, (self._directory, self._shortest)

    @cached_property
    def size(self) -> int:
        """The number of documents, of all lengths."""
        return int(self._query("select count(*) from documents")[0][0])

    @cached_property
    def docnos(self) -> list[str]:
        """The docnos of the collection, the documents that are long enough, ascending; none if it is empty."""
        return msgspec.msgpack.decode((self._directory / COLLECTION).read_bytes(), type=list[str])

    @property
    def collection(self) -> list[str]:
        """The docnos of what is retrieved from, ascending. Raises InputError: there are none, or none has a conclusion."""
        if not self.docnos:
            self.conclusions()
        return self.docnos

    def conclusions(self) -> pd.DataFrame:
        """Return `docno conclusion` of the collection, by docno. Raises InputError: there are none but empty ones."""
        found = self._some(["docno", "conclusion"], self.docnos)
        refuse_empty(found, self.size, self._shortest)
        return found

    def texts(self, docnos: Collection[str]) -> pd.DataFrame:
        """Return `docno conclusion premise` of those of some docnos that exist, in their order."""
        return self._some(COLUMNS, docnos)

    def all_docnos(self) -> set[str]:
        """Return the docnos of all documents, of all lengths."""
        return {row[0] for row in self._query("select docno from documents")}

    def unknown(self, docnos: Iterable[str]) -> set[str]:
        """Return the docnos that no document has."""
        asked = msgspec.json.encode(list(docnos)).decode()
        rows = self._query("select value from json_each(?) where value not in (select docno from documents)", asked)
        return {row[0] for row in rows}

    def _some(self, columns: list[str], docnos: Collection[str]) -> pd.DataFrame:
        asked = msgspec.json.encode(list(docnos)).decode()
        joined = "json_each(?) as asked join documents on docno = asked.value order by asked.key"
        return pd.DataFrame(self._query(f"select {', '.join(columns)} from {joined}", asked), columns=columns, dtype=object)

    def _query(self, statement: str, *values: str) -> list[tuple[str, ...]]:
        return _asked(self._directory / DOCUMENTS, statement, *values)


def documents_code() -> str:
    """Return the hash of the code that reads an input; all that is made of its documents depends on it."""
    return code_fingerprint(__name__)


def open_documents(source: Input, work: Work) -> Documents:
    """The documents of an input, in the working directory. Raises InputError: they cannot be read. OutputError."""
    kept = work.place("documents", f"{source.corpus_fingerprint} {documents_code()}")
    shortest = source.form.shortest_premise
    if kept.key(DOCUMENTS) is None or kept.key(COLLECTION) is None:
        kept.make([DOCUMENTS], lambda file: _write(source, file))
        kept.write(COLLECTION, msgspec.msgpack.encode(_long_enough(kept.directory / DOCUMENTS, shortest)))
    return Documents(kept.directory, shortest)


def _write(source: Input, file: Path) -> None:
    """Write an input's documents as they are read, some at a time; where that is refused, as they are read together.

    Raises:
        InputError: they cannot be read. OSError.
    """
    form = source.form
    with source.stopwatch.stage("documents"):
        try:
            _write_parts(form.parts(), form.shortest_premise, file)
        except (InputError, sqlite3.IntegrityError):  # the whole tells what is wrong, and which repetitions are harmless
            file.unlink()
            documents, faults = form.documents()
            refuse(faults)
            _write_parts([documents], form.shortest_premise, file)


def _write_parts(parts: Iterable[pd.DataFrame], shortest: int, file: Path) -> None:
    """Raises what reading parts raises; sqlite3.IntegrityError: a docno is repeated. OSError."""
    try:
        with closing(sqlite3.connect(file)) as database:
            database.executescript("pragma journal_mode = off; pragma synchronous = off; pragma page_size = 16384")
            database.execute("create table documents (docno text, words integer, conclusion text, premise text)")
            for part in parts:
                words = counts(part["premise"], shortest).tolist()
                rows = zip(part["docno"], words, part["conclusion"], part["premise"], strict=True)
                database.executemany("insert into documents values (?, ?, ?, ?)", rows)
            database.execute("create unique index docnos on documents (docno)")  # at the end: sorted once
            database.commit()
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise OSError(str(error)) from None


def _long_enough(file: Path, shortest: int) -> list[str]:
    """The docnos of the collection, ascending, as `collection.long_enough` chooses; logs what is left out."""
    numbers = "count(*), count(*) filter (where words = 0), count(*) filter (where words > 0 and words < ?)"
    [(documents, without, short)] = _asked(file, f"select {numbers} from documents", shortest)
    tell(documents, without, short, shortest)
    if without == documents:
        return []
    return [docno for (docno,) in _asked(file, "select docno from documents where words >= ? order by docno", shortest)]


def _asked(file: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """The rows of an answer. Raises OutputError: the file cannot be read."""
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
            return database.execute(statement, values).fetchall()
    except sqlite3.Error as error:
        raise OutputError(f"{file}: cannot be read ({error}); remove {file.parent}") from None
