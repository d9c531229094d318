"""TIREx's form of a data set: JSON lines of queries and documents, or a list to be re-ranked.

queries.jsonl    {qid, query}
documents.jsonl  {docno, text}
rerank.jsonl     {qid, query, docno, text, rank, score}: what to re-rank; has the queries and documents, should those be absent

Each also as .gz. A text is premises and conclusion in one and cannot be taken apart: it stands for both.
"""

from __future__ import annotations

import gzip
import logging
import zlib
from functools import cached_property
from pathlib import Path

import msgspec
import pandas as pd

from submission.errors import InputError, unreadable
from submission.input.topics import in_order

log = logging.getLogger(__name__)

QUERIES, DOCUMENTS, RERANKING = "queries.jsonl", "documents.jsonl", "rerank.jsonl"


class _Query(msgspec.Struct, gc=False):
    qid: str | int
    query: str


class _Document(msgspec.Struct, gc=False):
    docno: str
    text: str


class _Listed(msgspec.Struct, gc=False):
    qid: str | int
    query: str
    docno: str
    text: str
    score: float


class Tirex:
    """A data set in TIREx's form."""

    name = "TIREx's form: premises and conclusion are one text, and that is ranked"

    def __init__(self, directory: Path) -> None:
        """Find the files. Raises InputError: queries or documents are missing."""
        self.reranking = _find(directory, RERANKING)
        queries, documents = (_find(directory, name) or self.reranking for name in (QUERIES, DOCUMENTS))
        if not queries or not documents:
            missing = DOCUMENTS if queries else QUERIES
            raise InputError(f"{directory}: no {missing} found; expected it there, or {RERANKING} (or .gz)")
        self._queries, self._documents = queries, documents
        self.topic_files = [queries]
        self.corpus_files = list(dict.fromkeys([documents, self.reranking or documents]))

    @staticmethod
    def is_in(directory: Path) -> bool:
        """Whether a directory has this form."""
        return bool(_find(directory, DOCUMENTS) or _find(directory, RERANKING))

    def topics(self) -> pd.DataFrame:
        """`qid query`. Raises InputError."""
        topics = self._list if self._queries == self.reranking else _read(self._queries, _Query)
        topics = topics[["qid", "query"]].drop_duplicates()
        _refuse_repeated(self._queries, topics, "qid", "query")
        empty = topics["qid"][topics["query"].str.strip() == ""]
        if len(empty) or not len(topics):
            what = f"topic {empty.iloc[0]} has an empty query" if len(empty) else "no query"
            raise InputError(f"{self._queries}: {what}; expected lines like {{'qid': '1', 'query': 'a question'}}")
        return in_order(topics)

    def documents(self) -> pd.DataFrame:
        """`docno conclusion premise`, docno ascending; the text stands in both. Raises InputError."""
        documents = self._list if self._documents == self.reranking else _read(self._documents, _Document)
        documents = documents[["docno", "text"]].drop_duplicates()
        _refuse_repeated(self._documents, documents, "docno", "text")
        log.info("%s: %d documents", self._documents.name, len(documents))
        texts = documents.sort_values("docno", ignore_index=True)
        return pd.DataFrame({"docno": texts["docno"], "conclusion": texts["text"], "premise": texts["text"]})

    def listed(self) -> pd.DataFrame | None:
        """`qid docno score` of the list to be re-ranked; None: there is none. Raises InputError."""
        return self._list[["qid", "docno", "score"]] if self.reranking else None

    @cached_property
    def _list(self) -> pd.DataFrame:
        if not self.reranking:
            raise AssertionError("asked for only where there is one")
        return _read(self.reranking, _Listed)


def _find(directory: Path, name: str) -> Path | None:
    return next((file for file in (directory / name, directory / f"{name}.gz") if file.is_file()), None)


def _read(file: Path, form: type[msgspec.Struct]) -> pd.DataFrame:
    """The fields of a file's lines; ids as strings without blanks."""
    fields = form.__struct_fields__
    expected = f"expected {{{', '.join(fields)}}} in JSON"
    decoder, rows = msgspec.json.Decoder(form), []
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            for number, line in enumerate(lines, 1):  # noqa: B007 the messages below need it
                rows.append(msgspec.structs.astuple(decoder.decode(line)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{file}, line {number}: {error}; {expected}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{file}: damaged gzip file ({error}); copy it again") from None
    except OSError as error:
        raise unreadable(error) from None
    frame = pd.DataFrame(rows, columns=fields)
    for column in {"qid", "docno"} & set(fields):
        frame[column] = frame[column].astype(str)
        blank = frame[column].str.split().map(len) != 1
        if blank.any():
            number = int(blank.to_numpy().argmax())
            raise InputError(f"{file}, line {number + 1}: {column} {frame[column][number]!r}; expected an id without blanks")
    return frame


def _refuse_repeated(file: Path, frame: pd.DataFrame, name: str, text: str) -> None:
    repeated = frame[name][frame[name].duplicated()]
    if len(repeated):
        raise InputError(f"{file}: {name} {repeated.iloc[0]} occurs again with another {text}; ids must be unique")
