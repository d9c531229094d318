"""Touché's form: topics in XML and the args.me corpus in JSON, which becomes a frame `docno conclusion premise`."""

from __future__ import annotations

import gc
import gzip
import json
import logging
import mmap
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from submission.errors import InputError, unreadable
from submission.input.topics import read_topics, topic_files

log = logging.getLogger(__name__)

PORTALS = ("debateorg", "debatepedia", "debatewise", "idebate", "parliamentary")


class _Premise(msgspec.Struct, gc=False):
    text: str


class _Argument(msgspec.Struct, gc=False):
    id: str
    conclusion: str
    premises: tuple[_Premise, ...]


class _Corpus(msgspec.Struct, gc=False):
    arguments: list[_Argument]


class ArgsMe:
    """An input in Touché's form."""

    name = "Touché's form"
    reranking: Path | None = None

    def __init__(self, directory: Path) -> None:
        """Find the files. Raises InputError: there are none."""
        self.topic_files, self.corpus_files = topic_files(directory), corpus_files(directory)

    def topics(self) -> pd.DataFrame:
        """`qid query`. Raises InputError."""
        return read_topics(self.topic_files)

    def documents(self) -> pd.DataFrame:
        """`docno conclusion premise`. Raises InputError."""
        return read_documents(self.corpus_files)

    def listed(self) -> None:
        """There is no such list."""


def corpus_files(directory: Path) -> list[Path]:
    """The corpus files of an input directory, sorted: the portals' files or any args-me*.json, plain or .gz.

    Raises:
        InputError: the directory is missing, or holds no corpus.
    """
    if not directory.is_dir():
        raise InputError(f"{directory}: no such input directory; expected one with topics*.xml and the args.me JSON files")
    names = [*PORTALS, "args-me*"]
    files = sorted(f for name in names for end in ("json", "json.gz") for f in directory.glob(f"{name}.{end}"))
    if not files:
        expected = ", ".join(f"{portal}.json" for portal in PORTALS)
        raise InputError(f"{directory}: no corpus found; expected args-me*.json or {expected} there (or .json.gz)")
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
def read_documents(files: list[Path]) -> pd.DataFrame:
    """Read arguments: one row an argument, `docno`, `conclusion`, `premise` (all premises joined by a blank), as they come.

    An argument that is repeated with equal text is dropped and counted.

    Raises:
        InputError: unreadable, malformed, truncated or non-UTF-8 JSON, a missing field, an id with blanks, an id that is
            repeated with different text.
    """
    arguments: list[_Argument] = []
    sizes = []
    for file in files:
        found = _decode(file, _bytes(file))
        log.info("%s: %d arguments", file.name, len(found))
        arguments += found
        sizes.append(len(found))
    documents = _frame(arguments)
    docnos = documents["docno"].tolist()
    together, unique = "".join(docnos), set(docnos)  # one text of all ids shows whether there is a blank in any
    if not docnos or (together.split() == [together] and "" not in unique and len(unique) == len(docnos)):
        return documents
    for fault in _id_faults(documents, np.repeat(np.array(files, dtype=object), sizes)):
        raise InputError(fault)
    log.warning("%d arguments are repeated with the same text: dropped", len(documents) - len(unique))
    return documents.drop_duplicates("docno", ignore_index=True)


def corpus_faults(files: list[Path]) -> tuple[pd.DataFrame, list[str]]:
    """What can be read of corpus files, as a frame as read_documents gives, and all that is wrong with them."""
    parts, readable, faults = [], [], []
    for file in files:
        try:
            part = _frame(_decode(file, _bytes(file)))
        except InputError as error:
            found = _argument_faults(file)
            faults += found or [str(error)]
        else:
            parts.append(part)
            readable.append(file)
    documents = pd.concat([pd.DataFrame(columns=["docno", "conclusion", "premise"], dtype=object), *parts], ignore_index=True)
    faults += _id_faults(documents, np.repeat(np.array(readable, dtype=object), [len(part) for part in parts]))
    return documents.drop_duplicates("docno", ignore_index=True), faults


def _frame(arguments: list[_Argument]) -> pd.DataFrame:
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


def _bytes(file: Path) -> bytes | mmap.mmap:
    """The content of a file; mapped if that is possible: to copy a gigabyte takes a third of the time to decode it."""
    try:
        with file.open("rb") as stream:
            if file.suffix == ".gz":
                return gzip.decompress(stream.read())
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if file.stat().st_size else b""
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{file}: damaged gzip file ({error}); copy it again") from None
    except OSError as error:
        raise unreadable(error) from None


def _decode(file: Path, data: bytes | mmap.mmap) -> list[_Argument]:
    expected = 'expected {"arguments": [{"id": …, "conclusion": …, "premises": [{"text": …}]}]}'
    try:
        return msgspec.json.decode(data, type=_Corpus).arguments
    except msgspec.ValidationError as error:
        raise InputError(f"{file}{_which_argument(data[:], str(error))}: {error}; {expected}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{file}, {_where(data[:])}: malformed JSON ({error}); {expected}; copy the file again") from None


def _which_argument(data: bytes, message: str) -> str:
    """The id of the argument that a validation error speaks of, as far as it can be told."""
    index = re.search(r"\$\.arguments\[(\d+)\]", message)
    if not index:
        return ""
    try:
        argument = msgspec.json.decode(data)["arguments"][int(index[1])]
    except (msgspec.DecodeError, UnicodeDecodeError, LookupError, TypeError):  # a second fault, further on
        argument = None
    name = argument.get("id") if isinstance(argument, dict) else None
    return f", argument number {int(index[1]) + 1}" + (f" (id {name})" if name else "")


def _where(data: bytes) -> str:
    """Line and column of the first fault in bytes that msgspec has refused: bad UTF-8 or bad JSON."""
    try:
        json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return f"line {line}, byte {error.start} (not UTF-8)"
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}"
    except RecursionError:
        return "nested too deeply"
    return "place unknown"


def _argument_faults(file: Path) -> list[str]:
    """What is wrong with each argument of a file that is JSON at least."""
    try:
        arguments = msgspec.json.decode(_bytes(file))["arguments"]
    except (InputError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
        return []
    faults = []
    for number, argument in enumerate(arguments if isinstance(arguments, list) else [], 1):
        try:
            msgspec.convert(argument, _Argument)
        except msgspec.ValidationError as error:
            name = argument.get("id") if isinstance(argument, dict) else None
            faults.append(f"{file}, argument number {number}" + (f" (id {name})" if name else "") + f": {error}")
    return faults


def _id_faults(documents: pd.DataFrame, owners: np.ndarray) -> Iterator[str]:
    """What is wrong with the ids; owners are the files of the rows."""
    for owner, docno in zip(owners, documents["docno"], strict=True):
        if docno.split() != [docno]:
            yield f"{owner}: argument id {docno!r}; expected an id without blanks, as run files need"
    repeated = documents[documents["docno"].duplicated(keep=False)]
    for docno, group in repeated.groupby("docno", sort=True):
        if len(group.drop_duplicates()) > 1:
            places = ", ".join(sorted({str(file) for file in owners[group.index]}))
            yield (
                f"{places}: argument {docno!s} occurs {len(group)} times with different texts; "
                "ids must be unique: are two corpus versions mixed?"
            )
