"""TIREx's form of a data set: JSON lines of queries and documents, or a list to be re-ranked.

queries.jsonl    {qid, query}
documents.jsonl  {docno, text}
rerank.jsonl     {qid, query, docno, text, rank, score}: what to re-rank; has the queries and documents, should those be absent

Each also as .gz. A text is premises and conclusion in one and cannot be taken apart: it stands for both.
"""

from __future__ import annotations

import logging
from functools import cached_property
from pathlib import Path

import msgspec
import pandas as pd

from submission.errors import InputError, short
from submission.input.files import lines, named, unfit
from submission.input.topics import in_order

log = logging.getLogger(__name__)

IDS = {"qid", "docno"}
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
        """Whether a directory has this form, or a part of it. Raises InputError: it cannot be listed."""
        return any(_find(directory, name) for name in (QUERIES, DOCUMENTS, RERANKING))

    def topics(self) -> tuple[pd.DataFrame, list[str]]:
        """`qid query`, and what is wrong with them: at most the first fault."""
        try:
            topics = self._list if self._queries == self.reranking else _read(self._queries, _Query)
            topics = topics[["qid", "query"]].drop_duplicates()
            _refuse_repeated(self._queries, topics, "qid", "query")
        except InputError as error:
            return pd.DataFrame(columns=["qid", "query"], dtype=object), [str(error)]
        empty = topics["qid"][topics["query"].str.strip() == ""]
        if len(empty) or not len(topics):
            what = f"topic {short(empty.iloc[0])} has an empty query" if len(empty) else "no query"
            return topics, [f"{self._queries}: {what}; expected lines like {{'qid': '1', 'query': 'a question'}}"]
        return in_order(topics), []

    def documents(self) -> tuple[pd.DataFrame, list[str]]:
        """`docno conclusion premise`, docno ascending, the text in both; and what is wrong: at most the first fault."""
        try:
            documents = self._list if self._documents == self.reranking else _read(self._documents, _Document)
            documents = documents[["docno", "text"]].drop_duplicates()
            _refuse_repeated(self._documents, documents, "docno", "text")
        except InputError as error:
            return pd.DataFrame(columns=["docno", "conclusion", "premise"], dtype=object), [str(error)]
        log.info("%s: %d documents", self._documents.name, len(documents))
        texts = documents.sort_values("docno", ignore_index=True)
        return pd.DataFrame({"docno": texts["docno"], "conclusion": texts["text"], "premise": texts["text"]}), []

    def listed(self) -> pd.DataFrame | None:
        """`qid docno rank score line` of the list to be re-ranked; None: there is none. Raises InputError."""
        if not self.reranking:
            return None
        return self._list[["qid", "docno", "score"]].assign(rank=float("nan"), line=range(1, len(self._list) + 1))

    @cached_property
    def _list(self) -> pd.DataFrame:
        if not self.reranking:
            raise AssertionError("asked for only where there is one")
        return _read(self.reranking, _Listed)


def _find(directory: Path, name: str) -> Path | None:
    return next(iter(named(directory, name, f"{name}.gz")), None)


def _read(file: Path, form: type[msgspec.Struct]) -> pd.DataFrame:
    """The fields of a file's lines; ids as strings that can stand in a run."""
    fields = form.__struct_fields__
    expected = f"expected {{{', '.join(fields)}}} in JSON"
    decoder, rows = msgspec.json.Decoder(form), []
    for number, line in lines(file):
        try:
            values = msgspec.structs.astuple(decoder.decode(line))
            row = tuple(str(value) if name in IDS else value for name, value in zip(fields, values, strict=True))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{file}, line {number}: {short(str(error), 200)}; {expected}") from None
        for name, value in zip(fields, row, strict=True):
            if name in IDS and unfit(value):
                what = f"{name} '{short(value)}'"
                raise InputError(f"{file}, line {number}: {what}; expected an id without blanks and control characters")
        rows.append(row)
    return pd.DataFrame(rows, columns=fields)


def _refuse_repeated(file: Path, frame: pd.DataFrame, name: str, text: str) -> None:
    repeated = frame[name][frame[name].duplicated()]
    if len(repeated):
        raise InputError(f"{file}: {name} {short(repeated.iloc[0])} occurs again with another {text}; ids must be unique")
