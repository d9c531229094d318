"""Look up the stance and portal of args.me arguments, for display only.

On first use, both are stored in the cache directory, in the table origins(docno, stance, portal) of
origins.sqlite.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from aragorn.cache import Cache
from aragorn.errors import InputError
from aragorn.io.document_store import create_database, fetch_rows
from aragorn.io.touche import PORTALS, ArgumentWithContext, read_arguments

log = logging.getLogger(__name__)

DATABASE_FILE = "origins.sqlite"
SCHEMA_VERSION = "origins 1"  # increase if the content of the file changes
STANCES = {b'"PRO"': "PRO", b'"CON"': "CON"}


class ArgumentMetadata(NamedTuple):
    """Properties of an argument that are displayed but do not affect rankings; "" if unknown."""

    stance: str = ""  # towards the conclusion
    portal: str = ""  # debate portal of origin


class _Context(msgspec.Struct, gc=False):
    sourceDomain: Any = None  # noqa: N815 name in args.me


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


def open_metadata(files: Sequence[Path], fingerprint: str, cache: Cache) -> MetadataStore:
    """Open the metadata of args.me files; build the store if it is not cached under `fingerprint`,
    a hash of the files."""

    def build(directory: Path) -> None:
        with create_database(directory / DATABASE_FILE) as database:
            database.execute(
                "create table origins (docno text primary key, stance text, portal text) without rowid"
            )
            for file in files:
                database.executemany(
                    "insert or ignore into origins values (?, ?, ?)", _read_rows(file)
                )

    directory = cache.directory("origins", f"{fingerprint} {SCHEMA_VERSION}", build)
    return MetadataStore(directory / DATABASE_FILE)


def _read_rows(file: Path) -> Iterator[tuple[str, str, str]]:
    """Yield docno, stance and portal of each argument; log a warning if the file is invalid."""
    stem = file.name.split(".")[0]
    try:
        for argument in read_arguments(file, ArgumentWithContext):
            portal = stem if stem in PORTALS else _get_domain(argument)
            yield argument.id, _get_stance(argument), portal
    except InputError as error:
        message = "%s: cannot read stances and portals (%s); the arguments are shown without them"
        log.warning(message, file, error)


def _get_stance(argument: ArgumentWithContext) -> str:
    """Return the stance that all premises share, or that of the argument if it has no premises; ""
    if there is none."""
    stances = {bytes(premise.stance) for premise in argument.premises or ()}
    [stance, *others] = stances or {bytes(argument.stance)}
    return "" if others else STANCES.get(stance, "")


def _get_domain(argument: ArgumentWithContext) -> str:
    with suppress(ValueError, RecursionError):
        domain = msgspec.json.decode(argument.context, type=_Context).sourceDomain
        return domain if isinstance(domain, str) else ""
    return ""
