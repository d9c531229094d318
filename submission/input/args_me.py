"""Touché's form: topics in XML and the args.me corpus in JSON, which becomes a frame `docno conclusion premise`."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from submission.errors import InputError, short
from submission.input import arguments_lines
from submission.input.arguments import Argument, Corpus, Places
from submission.input.arguments_faults import file_faults
from submission.input.collection import SHORTEST_PREMISE
from submission.input.files import BOM, content, named, parts_of, reading, unfit
from submission.input.json_places import Data
from submission.input.other_forms import other_corpus
from submission.input.topics import read_topics, topic_files

log = logging.getLogger(__name__)

PORTALS = ("debateorg", "debatepedia", "debatewise", "idebate", "parliamentary")
ENDINGS = (".json", ".json.gz", *arguments_lines.ENDINGS)


class ArgsMe:
    """An input in Touché's form."""

    name = "Touché's form"
    reranking: Path | None = None
    shortest_premise = SHORTEST_PREMISE

    def __init__(self, directory: Path) -> None:
        """Find the files. Raises InputError: there are none."""
        self.topic_files, self.corpus_files = topic_files(directory), corpus_files(directory)

    def topics(self) -> tuple[pd.DataFrame, list[str]]:
        """`qid query`, and all that is wrong with them."""
        return read_topics(self.topic_files)

    def documents(self) -> tuple[pd.DataFrame, list[str]]:
        """`docno conclusion premise`, and all that is wrong with them."""
        return read_documents(self.corpus_files)

    def parts(self) -> Iterator[pd.DataFrame]:
        """The same documents, some at a time. Raises InputError: something is wrong, but for ids that are repeated."""
        for file in self.corpus_files:
            number = 0
            for part in parts_of(arguments_lines.each(file) if arguments_lines.has_lines(file) else _each(file)):
                documents = _frame(part)
                if _have_unfit(documents["docno"].tolist()):
                    raise InputError(f"{file}: an id that cannot stand in a run")
                number += len(documents)
                yield documents
            log.info("%s: %d arguments", file.name, number)

    def listed(self) -> None:
        """There is no such list."""


def corpus_files(directory: Path) -> list[Path]:
    """The corpus files of an input directory, sorted: the portals' files or any args-me*, as .json or .jsonl, plain or .gz.

    Raises:
        InputError: the directory is missing, or holds no corpus, or one in a form that is not read.
    """
    files = named(directory, *(f"{name}{ending}" for name in (*PORTALS, "args-me*") for ending in ENDINGS))
    if not files:
        expected = ", ".join(f"{portal}.json" for portal in PORTALS)
        raise InputError(
            other_corpus(directory)
            or f"{directory}: no corpus found; expected args-me*.json or {expected} there "
            "(or .jsonl with an argument a line; each plain or .gz)"
        )
    return files


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """It would go through all the new objects again and again, and find nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@_no_garbage_collection()
def read_documents(files: list[Path]) -> tuple[pd.DataFrame, list[str]]:
    """Read arguments: one row an argument, `docno`, `conclusion`, `premise` (all premises joined by a blank), as they come.

    An argument that is repeated with equal text is dropped and counted.

    Returns:
        What can be read, and all that is wrong: unreadable, malformed, truncated or non-UTF-8 JSON, a missing field, an id that
        cannot stand in a run, an id that is repeated with different text.
    """
    arguments: list[Argument] = []
    sizes, faults = [], []
    for file in files:
        found, own = arguments_lines.read(file) if arguments_lines.has_lines(file) else _arguments(file)
        log.info("%s: %d arguments", file.name, len(found))
        arguments += found
        sizes.append(len(found))
        faults += own
    documents = _frame(arguments)
    docnos = documents["docno"].tolist()
    unique = set(docnos)
    if len(unique) < len(docnos) or _have_unfit(docnos):
        owners = np.repeat(np.arange(len(files)), sizes)
        faults += _id_faults(documents, [str(file) for file in files], owners)
        documents = documents.drop_duplicates("docno", ignore_index=True)
        if not faults and len(docnos) > len(unique):
            log.warning("%d arguments are repeated with the same text: dropped", len(docnos) - len(unique))
    return documents, faults


def _have_unfit(docnos: list[str]) -> bool:
    """Tell whether some of the ids may be unfit: one text of all shows whether there is a blank in any."""
    together = "".join(docnos)
    return not together.isprintable() or " " in together or "" in docnos


def _frame(arguments: list[Argument]) -> pd.DataFrame:
    columns: dict[str, Iterator[str]] = {
        "docno": map(attrgetter("id"), arguments),
        "conclusion": map(attrgetter("conclusion"), arguments),
        "premise": (
            argument.premises[0].text
            if len(argument.premises) == 1
            else " ".join(premise.text for premise in argument.premises)
            for argument in arguments
        ),
    }
    arrays = {name: np.fromiter(texts, dtype=object, count=len(arguments)) for name, texts in columns.items()}
    return pd.DataFrame(arrays, copy=False)


def _arguments(file: Path) -> tuple[list[Argument], list[str]]:
    """The arguments of a file, or all that is wrong with it."""
    try:
        data = _without_bom(content(file))
    except InputError as error:
        return [], [str(error)]
    try:
        return msgspec.json.decode(data, type=Corpus).arguments, []
    except (ValueError, RecursionError, MemoryError) as error:
        return [], file_faults(file, data, error)


def _each(file: Path) -> Iterator[Argument]:
    """The arguments of a file one by one: only their places are in memory. Raises InputError."""
    decoder = msgspec.json.Decoder(Argument)
    with reading(file):
        with _no_garbage_collection():
            places = msgspec.json.decode(_without_bom(content(file)), type=Places).arguments
        for place in places:
            yield decoder.decode(place)


def _without_bom(data: Data) -> Data:
    return data[len(BOM) :] if data[: len(BOM)] == BOM else data


def _id_faults(documents: pd.DataFrame, files: list[str], owners: np.ndarray) -> Iterator[str]:
    """Find faults of ids; owners (N,) are the numbers of the rows' files."""
    first = {owner: row for row, owner in reversed(list(enumerate(owners.tolist())))}  # the row of a file's first argument
    for row, docno in enumerate(documents["docno"]):
        if unfit(docno):
            place = f"{files[owners[row]]}, argument number {row - first[owners[row]] + 1}"
            yield f"{place}: id '{short(docno)}'; expected one without blanks and control characters, as run files need"
    repeated = documents[documents["docno"].duplicated(keep=False)]
    for docno, group in repeated.groupby("docno", sort=True):
        if len(group.drop_duplicates()) > 1:
            places = ", ".join(sorted({files[owner] for owner in owners[group.index]}))
            yield (
                f"{places}: argument {short(str(docno))} occurs {len(group)} times with different texts; "
                "ids must be unique: are two corpus versions mixed?"
            )
