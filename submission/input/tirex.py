"""TIREx's form of a data set: JSON lines of queries and documents, or a list to be re-ranked.

queries.jsonl    {qid, query}
documents.jsonl  {docno, text}; or corpus.jsonl
rerank.jsonl     {qid, query, docno, text, rank, score}: what to re-rank; has the queries and documents, should those be absent

Each also as .gz; what else the fields may be called is in `tirex_lines`. Rank and score may be absent. A text is premises and
conclusion in one and cannot be taken apart: it stands for both.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import pandas as pd

from submission.errors import InputError, short
from submission.input.files import named, parts_of
from submission.input.other_forms import BEIR_DOCUMENTS, BEIR_QUERIES, begins_as_beir
from submission.input.tirex_lines import DOCNO, LISTED_QUERY, QID, QUERY, RANK, SCORE, TEXT, read, rows
from submission.input.topics import in_order

log = logging.getLogger(__name__)

QUERIES, RERANKING = ["queries.jsonl"], ["rerank.jsonl"]
DOCUMENTS = ["documents.jsonl", "corpus.jsonl"]


class Tirex:
    """A data set in TIREx's form."""

    name = "TIREx's form: premises and conclusion are one text, and that is ranked"
    shortest_premise = 0  # whatever a collection's texts are, they need be no arguments

    def __init__(self, directory: Path) -> None:
        """Find the files. Raises InputError: queries or documents are missing."""
        self.reranking = _find(directory, RERANKING)
        queries, documents = (_find(directory, names) or self.reranking for names in (QUERIES, DOCUMENTS))
        if not queries or not documents:
            raise InputError(_missing(directory, queries, documents))
        self._queries, self._documents = queries, documents
        self.topic_files = [queries]
        self.corpus_files = list(dict.fromkeys([documents, self.reranking or documents]))

    @staticmethod
    def is_in(directory: Path) -> bool:
        """Tell whether a directory is a TIREx data set, or a part of one. Raises InputError: it cannot be listed."""
        names = [*QUERIES, *RERANKING, *DOCUMENTS]
        if named(directory, "topics*.xml"):  # what is called a corpus beside them may be anything
            names.remove("corpus.jsonl")
        return _find(directory, names) is not None

    def topics(self) -> tuple[pd.DataFrame, list[str]]:
        """`qid query`, and what is wrong with them: at most the first fault."""
        try:
            lines = self._list if self._queries == self.reranking else read(self._queries, [QID, QUERY])
            topics = _first_of_each(self._queries, lines, "qid", "query")
        except InputError as error:
            return pd.DataFrame(columns=["qid", "query"], dtype=object), [str(error)]
        empty = topics[topics["query"].str.strip() == ""]
        if len(empty) or not len(topics):
            what = ": no query"
            for qid, line in empty[["qid", "line"]].head(1).itertuples(index=False):
                what = f", line {line}: topic {short(qid)} has an empty query"
            fault = f"{self._queries}{what}; expected lines like {{'qid': '1', 'query': 'a question'}}"
            return topics[["qid", "query"]], [fault]
        return in_order(topics[["qid", "query"]]), []

    def documents(self) -> tuple[pd.DataFrame, list[str]]:
        """`docno conclusion premise`, docno ascending, the text in both; and what is wrong: at most the first fault."""
        try:
            lines = self._list if self._documents == self.reranking else read(self._documents, [DOCNO, TEXT])
            documents = _first_of_each(self._documents, lines, "docno", "text")
        except InputError as error:
            return pd.DataFrame(columns=["docno", "conclusion", "premise"], dtype=object), [str(error)]
        log.info("%s: %d documents", self._documents.name, len(documents))
        if self._documents != self.reranking and len(documents) < len(lines):
            log.warning("%d documents are repeated with the same text: dropped", len(lines) - len(documents))
        texts = documents.sort_values("docno", ignore_index=True)
        return pd.DataFrame({"docno": texts["docno"], "conclusion": texts["text"], "premise": texts["text"]}), []

    def parts(self) -> Iterator[pd.DataFrame]:
        """The same documents, some at a time, and of a repeated one each line. Raises InputError."""
        if self._documents == self.reranking:
            documents, faults = self.documents()
            if faults:
                raise InputError(faults[0])
            yield documents
            return
        for part in parts_of(rows(self._documents, [DOCNO, TEXT])):
            docnos, texts, _ = zip(*part, strict=True)
            yield pd.DataFrame({"docno": docnos, "conclusion": texts, "premise": texts}, dtype=object)

    def listed(self) -> pd.DataFrame | None:
        """The list to be re-ranked, `qid docno rank score line` in the order of its lines; None: there is none.

        Ranks and scores are float64: NaN stands in all rows where the file has none.

        Raises:
            InputError: it cannot be read.
        """
        return self._list[["qid", "docno", "rank", "score", "line"]] if self.reranking else None

    @cached_property
    def _list(self) -> pd.DataFrame:
        """Read the whole list. Raises InputError."""
        if not self.reranking:
            raise AssertionError("asked for only where there is one")
        query = [LISTED_QUERY] if self._queries == self.reranking else []  # elsewhere they are not needed
        text = [TEXT] if self._documents == self.reranking else []
        return read(self.reranking, [QID, *query, DOCNO, *text, RANK, SCORE])


def _find(directory: Path, names: Sequence[str]) -> Path | None:
    """The first file of some names that is there, plain or .gz. Raises InputError: the directory cannot be listed."""
    return next((file for name in names for file in named(directory, name, f"{name}.gz")), None)


def _missing(directory: Path, queries: Path | None, documents: Path | None) -> str:
    """Describe a missing file; the file that is there may be in another format. Raises InputError."""
    for file, what in ((queries, BEIR_QUERIES), (documents, BEIR_DOCUMENTS)):
        if file and begins_as_beir(file):
            return f"{file}: {what}"
    missing = " or ".join(DOCUMENTS if queries else QUERIES)
    return f"{directory}: no {missing} found; expected it there, or {RERANKING[0]} (or .gz)"


def _first_of_each(file: Path, lines: pd.DataFrame, name: str, text: str) -> pd.DataFrame:
    """The first line of each id. Raises InputError: a later one has another text."""
    first = lines.drop_duplicates(name)
    expected = lines[name].map(dict(zip(first[name], first[text], strict=True)))
    other = lines[expected != lines[text]]
    if len(other):
        row = other.iloc[0]
        line = first["line"][first[name] == row[name]].iloc[0]
        again = f"{name} {short(row[name])} occurs again with another {text}, first in line {line}"
        raise InputError(f"{file}, line {row['line']}: {again}; ids must be unique, remove one")
    return first
