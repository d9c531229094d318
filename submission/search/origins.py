"""Stances and portals of arguments as args.me has them; no system reads these.

Read when the first argument is shown, and kept beside the index where there is a working directory.

origins.sqlite    origins(docno, stance, portal)
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from submission.disk.work import Work
from submission.errors import InputError, OutputError
from submission.input.args_me import PORTALS
from submission.input.arguments_lines import arguments_as
from submission.search.corpus import Corpus

log = logging.getLogger(__name__)

ORIGINS = "origins.sqlite"
FORM = "origins 1"  # of that file: another number, and it is made again
STANCES = ("PRO", "CON")


class Origin(NamedTuple):
    """The side that an argument takes to its conclusion, and who published it; "" where that is not said."""

    stance: str = ""
    portal: str = ""


class _Premise(msgspec.Struct, gc=False):
    stance: Any = None  # null where nobody said


class _Context(msgspec.Struct, gc=False):
    sourceDomain: Any = None  # noqa: N815 as args.me has it


class _Argument(msgspec.Struct, gc=False):
    id: str
    premises: tuple[_Premise, ...] = ()
    stance: Any = None  # of the only premise, in a file with an argument a line
    context: _Context | None = None


class Origins:
    """The origins of a corpus' arguments, some at a time."""

    def __init__(self, file: Path) -> None:
        """From the file that `open_origins` makes."""
        self._file = file

    def of(self, docnos: Collection[str]) -> dict[str, Origin]:
        """Return the known origins of documents. Raises OutputError: the file cannot be read."""
        asked = msgspec.json.encode(list(docnos)).decode()
        statement = "select * from origins where docno in (select value from json_each(?))"
        try:
            with closing(sqlite3.connect(f"{self._file.resolve().as_uri()}?mode=ro", uri=True)) as database:
                rows = database.execute(statement, (asked,)).fetchall()
        except sqlite3.Error as error:
            raise OutputError(f"{self._file}: cannot be read ({error}); remove {self._file.parent}") from None
        return {docno: Origin(stance, portal) for docno, stance, portal in rows}


def open_origins(corpus: Corpus, work: Work) -> Origins:
    """The origins of a corpus' arguments, read unless they are kept; a corpus of another form than args.me's says none.

    Raises:
        OutputError: the working directory cannot be written.
    """
    kept, files = work.place("origins", f"{corpus.corpus_fingerprint} {FORM}"), corpus.args_me_files

    def write(file: Path) -> None:
        try:
            with closing(sqlite3.connect(file)) as database:
                database.executescript("pragma journal_mode = off; pragma synchronous = off")
                database.execute("create table origins (docno text primary key, stance text, portal text) without rowid")
                rows = (row for one in files for row in _rows(one))
                database.executemany("insert or ignore into origins values (?, ?, ?)", rows)
                database.commit()
        except sqlite3.Error as error:
            raise OSError(str(error)) from None

    return Origins(*kept.make([ORIGINS], write))


def _rows(file: Path) -> Iterator[tuple[str, str, str]]:
    """Of a file in another form none: whoever ranks it has read it, so that is no fault of the corpus."""
    try:
        arguments = arguments_as(_Argument, file)
    except (InputError, ValueError, RecursionError, MemoryError):
        log.warning("%s: stances and portals cannot be read; its arguments are shown without", file)
        return
    name = file.name.split(".")[0]
    for argument in arguments:
        domain = argument.context.sourceDomain if argument.context else None
        yield argument.id, _side(argument), name if name in PORTALS else domain if isinstance(domain, str) else ""


def _side(argument: _Argument) -> str:
    """The stance of its premises, if they agree."""
    said = [premise.stance for premise in argument.premises] or [argument.stance]
    return next((stance for stance in STANCES if all(one == stance for one in said)), "")
