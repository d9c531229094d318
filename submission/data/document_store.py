"""Store the documents of an input in the cache directory.

documents.sqlite    documents(docno, words, conclusion, premise), words: premise length up to the minimum
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

from submission.data.collection import count_words, log_collection_size, validate_collection
from submission.data.dataset import Dataset, raise_first
from submission.errors import OutputError
from submission.storage.cache_directory import CacheDirectory
from submission.storage.code_fingerprint import code_fingerprint

DOCUMENTS_FILE, COLLECTION_FILE = "documents.sqlite", "collection.msgpack"
COLUMNS = ["docno", "conclusion", "premise"]


class DocumentStore:
    """Documents of an input, stored in the cache directory; pickled as their path."""

    def __init__(self, directory: Path, min_words: int) -> None:
        """Open existing files.

        Args:
            directory: Directory of both files.
            min_words: Minimum premise length of the collection, see `Form`.
        """
        self._directory, self._shortest = directory.absolute(), min_words

    def __reduce__(self) -> tuple[type[DocumentStore], tuple[Path, int]]:
        return DocumentStore, (self._directory, self._shortest)

    @cached_property
    def size(self) -> int:
        """Number of documents of any length."""
        return int(self._query("select count(*) from documents")[0][0])

    @cached_property
    def collection_docnos(self) -> list[str]:
        """Docnos of the collection, ascending; may be empty."""
        return msgspec.msgpack.decode((self._directory / COLLECTION_FILE).read_bytes(), type=list[str])

    @property
    def searchable_docnos(self) -> list[str]:
        """Docnos of the collection, ascending; at least one."""
        if not self.collection_docnos:
            self.read_conclusions()
        return self.collection_docnos

    def read_conclusions(self) -> pd.DataFrame:
        """Return `docno conclusion` of the collection, by docno."""
        conclusions = self._select(["docno", "conclusion"], self.collection_docnos)
        validate_collection(conclusions, self.size, self._shortest)
        return conclusions

    def read_texts(self, docnos: Collection[str]) -> pd.DataFrame:
        """Return `docno conclusion premise` of the given docnos that exist, in the given order."""
        return self._select(COLUMNS, docnos)

    def all_docnos(self) -> set[str]:
        """Return the docnos of all documents, of any length."""
        return {row[0] for row in self._query("select docno from documents")}

    def find_unknown(self, docnos: Iterable[str]) -> set[str]:
        """Return the given docnos that no document has."""
        docnos_json = msgspec.json.encode(list(docnos)).decode()
        rows = self._query("select value from json_each(?) where value not in (select docno from documents)", docnos_json)
        return {row[0] for row in rows}

    def _select(self, columns: list[str], docnos: Collection[str]) -> pd.DataFrame:
        docnos_json = msgspec.json.encode(list(docnos)).decode()
        source = "json_each(?) as requested join documents on docno = requested.value order by requested.key"
        rows = self._query(f"select {', '.join(columns)} from {source}", docnos_json)
        return pd.DataFrame(rows, columns=columns, dtype=object)

    def _query(self, statement: str, *values: str) -> list[tuple[str, ...]]:
        return _fetch_all(self._directory / DOCUMENTS_FILE, statement, *values)


def documents_code() -> str:
    """Return the hash of the code that reads an input, on which all artifacts of its documents depend."""
    return code_fingerprint(__name__)


def open_document_store(dataset: Dataset, cache: CacheDirectory) -> DocumentStore:
    """Return the document store of an input, built if not cached."""
    store = cache.open_store("documents", f"{dataset.corpus_fingerprint} {documents_code()}")
    shortest = dataset.reader.min_premise_words
    if store.valid_key(DOCUMENTS_FILE) is None or store.valid_key(COLLECTION_FILE) is None:
        store.build_files([DOCUMENTS_FILE], lambda file: _write_documents(dataset, file))
        store.write(COLLECTION_FILE, msgspec.msgpack.encode(_select_collection(store.directory / DOCUMENTS_FILE, shortest)))
    return DocumentStore(store.directory, shortest)


def _write_documents(source: Dataset, file: Path) -> None:
    """Write documents in batches; if an id is repeated, read all of them at once, which drops harmless duplicates."""
    reader = source.reader
    with source.stopwatch.stage("documents"):
        try:
            _insert_batches(reader.iter_batches(), reader.min_premise_words, file)
        except sqlite3.IntegrityError:
            file.unlink()
            documents, issues = reader.read_documents()
            raise_first(issues)
            _insert_batches([documents], reader.min_premise_words, file)


def _insert_batches(batches: Iterable[pd.DataFrame], min_words: int, file: Path) -> None:
    """Insert batches.

    Raises:
        sqlite3.IntegrityError: If a docno is repeated.
        OSError: If writing fails.
    """
    try:
        with closing(sqlite3.connect(file)) as database:
            database.executescript("pragma journal_mode = off; pragma synchronous = off; pragma page_size = 16384")
            database.execute("create table documents (docno text, words integer, conclusion text, premise text)")
            for batch in batches:
                word_counts = count_words(batch["premise"], min_words).tolist()
                rows = zip(batch["docno"], word_counts, batch["conclusion"], batch["premise"], strict=True)
                database.executemany("insert into documents values (?, ?, ?, ?)", rows)
            database.execute("create unique index docnos on documents (docno)")  # last: a single sort
            database.commit()
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise OSError(str(error)) from None


def _select_collection(file: Path, min_words: int) -> list[str]:
    """Return the docnos of the collection, ascending, as `collection.long_enough` does; log the excluded."""
    columns = "count(*), count(*) filter (where words = 0), count(*) filter (where words > 0 and words < ?)"
    [(total, empty_count, short_count)] = _fetch_all(file, f"select {columns} from documents", min_words)
    log_collection_size(total, empty_count, short_count, min_words)
    if empty_count == total:
        return []
    rows = _fetch_all(file, "select docno from documents where words >= ? order by docno", min_words)
    return [docno for (docno,) in rows]


def _fetch_all(file: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a query and return its rows."""
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
            return database.execute(statement, values).fetchall()
    except sqlite3.Error as error:
        raise OutputError(f"{file}: cannot be read ({error}); delete {file.parent} to rebuild it") from None
