"""Store the documents of an input in the cache directory.

documents.sqlite    table documents with the columns COLUMNS; words: premise length, capped at the
                    minimum length
collection.msgpack  docnos of the collection, ascending
"""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec

from aragorn.cache import Cache
from aragorn.errors import OutputError
from aragorn.io.collection import count_words, log_collection_size, validate_collection
from aragorn.io.dataset import Dataset
from aragorn.progress import Stopwatch
from aragorn.versions import describe_versions

if TYPE_CHECKING:
    import pandas as pd

VERSION = 2  # of the table
COMPUTES_WITH = ("aragorn.io.touche", "aragorn.io.tirex", "aragorn.io.collection")

DOCUMENTS_FILE = "documents.sqlite"
COLLECTION_FILE = "collection.msgpack"
# the temporary directory may be full, or missing
TEMPORARY_IN_MEMORY = "pragma temp_store = memory"
COLUMNS = ["docno", "words", "conclusion", "premise", "stance", "portal"]


class ArgumentMetadata(NamedTuple):
    """Properties of an argument that are displayed but do not affect rankings; "" if unknown."""

    stance: str = ""  # towards the conclusion: PRO or CON
    portal: str = ""  # debate portal of origin


class CorpusFrame:
    """Documents `docno conclusion premise` of any length, passed from Python."""

    min_premise_words = 0  # the minimum length applies to args.me only

    def __init__(self, documents: pd.DataFrame) -> None:
        self.documents = documents
        self.stopwatch = Stopwatch()
        texts = (text for column in documents for text in documents[column])
        content = "\0".join([str(self.min_premise_words), *texts])
        self.corpus_fingerprint = hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()

    def iter_batches(self) -> Iterator[pd.DataFrame]:
        yield self.documents


Corpus = Dataset | CorpusFrame


class DocumentStore:
    """Documents of an input in a directory; `min_words` is the collection's minimum length."""

    def __init__(self, directory: Path, min_words: int) -> None:
        self._directory = directory.absolute()
        self._min_words = min_words

    def __reduce__(self) -> tuple[type[Self], tuple[Path, int]]:
        return type(self), (self._directory, self._min_words)

    @cached_property
    def n_documents(self) -> int:
        """Number of all documents, including those too short for the collection."""
        return int(self._query("select count(*) from documents")[0][0])

    @cached_property
    def collection_docnos(self) -> list[str]:
        """Docnos of the collection, ascending; may be empty."""
        return msgspec.msgpack.decode(
            (self._directory / COLLECTION_FILE).read_bytes(), type=list[str]
        )

    @property
    def searchable_docnos(self) -> list[str]:
        """Docnos of the collection, ascending; raises InputError if there are none."""
        if not self.collection_docnos:
            self.read_conclusions()
        return self.collection_docnos

    def read_conclusions(self) -> pd.DataFrame:
        """Return the collection's `docno conclusion`; raise InputError if all are empty."""
        conclusions = self._select(["docno", "conclusion"], self.collection_docnos)
        validate_collection(conclusions, self.n_documents, self._min_words)
        return conclusions

    def read_texts(self, docnos: Collection[str]) -> pd.DataFrame:
        """Return `docno conclusion premise` in the order of `docnos`, without unknown ones."""
        return self._select(["docno", "conclusion", "premise"], docnos)

    def read_metadata(self, docnos: Collection[str]) -> dict[str, ArgumentMetadata]:
        rows = self._select(["docno", "stance", "portal"], docnos).itertuples(index=False)
        return {docno: ArgumentMetadata(stance, portal) for docno, stance, portal in rows}

    def read_all_docnos(self) -> set[str]:
        """Return the docnos of all documents, including those too short for the collection."""
        return {row[0] for row in self._query("select docno from documents")}

    def find_unknown(self, docnos: Iterable[str]) -> set[str]:
        """Return those of `docnos` that no document of the input has."""
        statement = (
            "select value from json_each(?) where value not in (select docno from documents)"
        )
        return {row[0] for row in self._query(statement, docnos)}

    def _select(self, columns: list[str], docnos: Collection[str]) -> pd.DataFrame:
        import pandas as pd

        source = (
            "json_each(?) as requested join documents on docno = requested.value "
            "order by requested.key"
        )
        rows = self._query(f"select {', '.join(columns)} from {source}", docnos)
        return pd.DataFrame(rows, columns=columns, dtype=object)

    def _query(self, statement: str, *docnos: Iterable[str]) -> list[tuple[Any, ...]]:
        arrays = [msgspec.json.encode([*ids]).decode() for ids in docnos]
        return fetch_rows(self._directory / DOCUMENTS_FILE, statement, *arrays)


def describe_documents(corpus: Corpus) -> str:
    """Describe, for a key, the files of the documents and the versions of what reads them."""
    return f"{corpus.corpus_fingerprint} {describe_versions(__name__)}"


def open_document_store(corpus: Corpus, cache: Cache) -> DocumentStore:
    """Open the document store of an input in `cache`; build it if it is not cached."""
    min_words = corpus.min_premise_words

    def build(directory: Path) -> None:
        file = directory / DOCUMENTS_FILE
        _write_documents(corpus, file)
        docnos = _select_collection(file, min_words)
        (directory / COLLECTION_FILE).write_bytes(msgspec.msgpack.encode(docnos))

    directory = cache.directory("documents", describe_documents(corpus), build)
    return DocumentStore(directory, min_words)


def _write_documents(corpus: Corpus, file: Path) -> None:
    """Write documents in batches; raise InputError for an id with different texts."""
    with corpus.stopwatch.stage("documents"), create_database(file) as database:
        database.execute("pragma page_size = 16384")
        database.execute(f"create table documents ({', '.join(COLUMNS)})")
        for batch in corpus.iter_batches():
            word_counts = count_words(batch["premise"], corpus.min_premise_words)
            columns = {name: batch[name].tolist() for name in batch} | {
                "words": word_counts.tolist()
            }
            values = zip(*(columns.get(name, [""] * len(batch)) for name in COLUMNS), strict=True)
            database.executemany(
                f"insert into documents values ({', '.join('?' * len(COLUMNS))})", values
            )
        # last, so that docnos are sorted only once
        database.execute("create index docnos on documents (docno)")
        counts = "select count(*) as n from documents group by docno"
        [n_repeated] = database.execute(f"select count(*) from ({counts}) where n > 1").fetchone()
        if n_repeated:
            corpus.documents  # noqa: B018 raises InputError for an id with different texts
            first_rows = "select min(rowid) from documents group by docno"
            database.execute(f"delete from documents where rowid not in ({first_rows})")


def _select_collection(file: Path, min_words: int) -> list[str]:
    """Return the docnos of `collection.select_collection`, ascending; log their number."""
    columns = (
        "count(*), count(*) filter (where words = 0), "
        "count(*) filter (where words > 0 and words < ?)"
    )
    [(n_documents, n_empty, n_short)] = fetch_rows(
        file, f"select {columns} from documents", min_words
    )
    log_collection_size(n_documents, n_empty, n_short, min_words)
    if n_empty == n_documents:
        return []
    rows = fetch_rows(
        file, "select docno from documents where words >= ? order by docno", min_words
    )
    return [docno for (docno,) in rows]


@contextmanager
def create_database(file: Path) -> Iterator[sqlite3.Connection]:
    """Create an SQLite file, and commit after the block; raise OSError if writing fails."""
    try:
        # The cache directory is locked instead, because not all file systems support locks.
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?nolock=1", uri=True)) as database:
            database.executescript(
                f"pragma journal_mode = off; pragma synchronous = off; {TEMPORARY_IN_MEMORY}"
            )
            yield database
            database.commit()
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            raise OSError(errno.ENOSPC, str(error)) from None
        limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        if error.sqlite_errorcode == sqlite3.SQLITE_IOERR_WRITE and limit != resource.RLIM_INFINITY:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG)) from None
        raise OSError(errno.EIO, str(error)) from None


def fetch_rows(file: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query on an SQLite file, or raise OutputError."""
    try:
        with closing(
            sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        ) as database:
            database.execute(TEMPORARY_IN_MEMORY)
            return database.execute(statement, values).fetchall()
    except sqlite3.Error as error:
        raise OutputError(
            f"{file}: cannot be read ({error}); delete {file.parent} to rebuild it"
        ) from None
