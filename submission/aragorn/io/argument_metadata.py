"""Look up the stance and portal of args.me arguments, for display only.

On first use, both are stored in the cache directory, in the table origins(docno, stance, portal) of
origins.sqlite.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from aragorn.errors import InputError
from aragorn.io.args_me import PORTALS
from aragorn.io.args_me_records import decode_arguments
from aragorn.io.document_store import create_database, fetch_rows
from aragorn.storage.cache_directory import CacheDirectory

log = logging.getLogger(__name__)

DATABASE_FILE = "origins.sqlite"
SCHEMA_VERSION = "origins 1"  # increase if the content of the file changes
STANCES = ("PRO", "CON")


class ArgumentMetadata(NamedTuple):
    """Properties of an argument that are displayed but do not affect rankings; "" if unknown."""

    stance: str = ""  # towards the conclusion
    portal: str = ""  # debate portal of origin


class _Premise(msgspec.Struct, gc=False):
    stance: Any = None  # null if unknown


class _Context(msgspec.Struct, gc=False):
    sourceDomain: Any = None  # noqa: N815 name in args.me


class _Argument(msgspec.Struct, gc=False):
    id: str
    premises: tuple[_Premise, ...] = ()
    stance: Any = None  # JSON Lines files have one premise per argument
    context: _Context | None = None


class MetadataStore:
    """Stances and portals of arguments, stored by docno in an SQLite file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def get(self, docnos: Collection[str]) -> dict[str, ArgumentMetadata]:
        """Return metadata by docno, omitting docnos without metadata; raise OutputError if the file
        is unreadable."""
        docnos_json = msgspec.json.encode(list(docnos)).decode()
        statement = "select * from origins where docno in (select value from json_each(?))"
        rows = fetch_rows(self._file, statement, docnos_json)
        return {docno: ArgumentMetadata(stance, portal) for docno, stance, portal in rows}


def open_metadata(files: Sequence[Path], fingerprint: str, cache: CacheDirectory) -> MetadataStore:
    """Open the metadata of args.me files; build the store if it is not cached under `fingerprint`,
    a hash of the files."""

    def build(path: Path) -> None:
        with create_database(path) as database:
            database.execute(
                "create table origins (docno text primary key, stance text, portal text) without rowid"
            )
            rows = (row for file in files for row in _read_rows(file))
            database.executemany("insert or ignore into origins values (?, ?, ?)", rows)

    store = cache.open_store("origins", f"{fingerprint} {SCHEMA_VERSION}")
    return MetadataStore(*store.build_files([DATABASE_FILE], build))


def _read_rows(file: Path) -> Iterator[tuple[str, str, str]]:
    """Yield docno, stance ("" unless all premises share it) and portal of each argument; log a
    warning if decoding fails."""
    try:
        arguments = decode_arguments(_Argument, file)
    except (InputError, ValueError, RecursionError, MemoryError) as error:
        cause = str(error) or type(error).__name__  # a MemoryError has no message
        log.warning(
            "%s: cannot read stances and portals (%s); the arguments are shown without them",
            file,
            cause,
        )
        return
    stem = file.name.split(".")[0]
    for argument in arguments:
        domain = argument.context.sourceDomain if argument.context else None
        portal = stem if stem in PORTALS else domain if isinstance(domain, str) else ""
        stances = [premise.stance for premise in argument.premises] or [argument.stance]
        common_stance = next(
            (stance for stance in STANCES if all(value == stance for value in stances)), ""
        )
        yield argument.id, common_stance, portal
