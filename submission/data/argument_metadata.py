"""Look up the stance and portal of args.me arguments; for display only.

Read on first use and cached with the index:

origins.sqlite    origins(docno, stance, portal)
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from submission.data.args_me import PORTALS
from submission.data.args_me_records import decode_arguments
from submission.errors import InputError, OutputError
from submission.storage.cache_directory import CacheDirectory

log = logging.getLogger(__name__)

DATABASE_FILE = "origins.sqlite"
SCHEMA_VERSION = "origins 1"  # increase to rebuild the file
STANCES = ("PRO", "CON")


class ArgumentMetadata(NamedTuple):
    """The stance of an argument towards its conclusion, and its portal; "" if unknown."""

    stance: str = ""
    portal: str = ""


class _Premise(msgspec.Struct, gc=False):
    stance: Any = None  # null if unknown


class _Context(msgspec.Struct, gc=False):
    sourceDomain: Any = None  # noqa: N815 args.me's name


class _Argument(msgspec.Struct, gc=False):
    id: str
    premises: tuple[_Premise, ...] = ()
    stance: Any = None  # JSON Lines files have one premise per argument
    context: _Context | None = None


class MetadataStore:
    """Argument metadata in an SQLite file."""

    def __init__(self, file: Path) -> None:
        """Create a store of an existing file."""
        self._file = file

    def get(self, docnos: Collection[str]) -> dict[str, ArgumentMetadata]:
        """Return the metadata of the documents that have some.

        Raises:
            OutputError: the file cannot be read.
        """
        encoded_docnos = msgspec.json.encode(list(docnos)).decode()
        statement = "select * from origins where docno in (select value from json_each(?))"
        try:
            with closing(sqlite3.connect(f"{self._file.resolve().as_uri()}?mode=ro", uri=True)) as database:
                rows = database.execute(statement, (encoded_docnos,)).fetchall()
        except sqlite3.Error as error:
            raise OutputError(f"{self._file}: cannot be read ({error}); delete {self._file.parent}") from None
        return {docno: ArgumentMetadata(stance, portal) for docno, stance, portal in rows}


def open_metadata(files: Sequence[Path], fingerprint: str, cache: CacheDirectory) -> MetadataStore:
    """Open the metadata of a corpus, building the file if it is not cached.

    Args:
        files: args.me files; other formats have no metadata.
        fingerprint: Fingerprint of the corpus.
        cache: Cache directory.

    Raises:
        OutputError: the cache directory is not writable.
    """
    store = cache.open_store("origins", f"{fingerprint} {SCHEMA_VERSION}")

    def build(path: Path) -> None:
        try:
            with closing(sqlite3.connect(path)) as database:
                database.executescript("pragma journal_mode = off; pragma synchronous = off")
                database.execute("create table origins (docno text primary key, stance text, portal text) without rowid")
                rows = (row for file in files for row in _read_rows(file))
                database.executemany("insert or ignore into origins values (?, ?, ?)", rows)
                database.commit()
        except sqlite3.Error as error:
            raise OSError(str(error)) from None

    return MetadataStore(*store.build_files([DATABASE_FILE], build))


def _read_rows(file: Path) -> Iterator[tuple[str, str, str]]:
    """Yield docno, stance and portal; nothing for a file without this structure, which may still be valid input."""
    try:
        arguments = decode_arguments(_Argument, file)
    except (InputError, ValueError, RecursionError, MemoryError):
        log.warning("%s: cannot read stances and portals; showing its arguments without them", file)
        return
    name = file.name.split(".")[0]
    for argument in arguments:
        domain = argument.context.sourceDomain if argument.context else None
        yield argument.id, _agreed_stance(argument), name if name in PORTALS else domain if isinstance(domain, str) else ""


def _agreed_stance(argument: _Argument) -> str:
    """Return the stance that all premises share, or ""."""
    stances = [premise.stance for premise in argument.premises] or [argument.stance]
    return next((stance for stance in STANCES if all(value == stance for value in stances)), "")
