"""Read TIREx data sets: JSON Lines of queries and documents, or candidates to re-rank.

queries.jsonl    {qid, query}
documents.jsonl  {docno, text}; or corpus.jsonl
rerank.jsonl     {qid, query, docno, text, rank, score}: candidates; supplies queries and documents if their files are missing

All files may be .gz; `tirex_lines` lists further field names. Rank and score are optional. The text combines premises and
conclusion and is used for both.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import pandas as pd

from submission.data import tirex_records as fields
from submission.data.input_files import named, parts_of, strict
from submission.data.tirex_records import Field, iter_records, read_records
from submission.data.topics import in_order
from submission.data.unsupported_formats import BEIR_DOCUMENTS, BEIR_QUERIES, begins_as_beir
from submission.errors import InputError, short

log = logging.getLogger(__name__)

QUERIES, RERANKING = ["queries.jsonl"], ["rerank.jsonl"]
DOCUMENTS = ["documents.jsonl", "corpus.jsonl"]

Records = tuple[pd.DataFrame, list[str]]  # a row per valid record, and all issues


class Tirex:
    """Reader of a TIREx data set."""

    name = "TIREx format; text is used as conclusion and premise"
    shortest_premise = 0  # texts of other collections need not be arguments

    def __init__(self, directory: Path) -> None:
        """Find the files; raise InputError if queries or documents are missing."""
        self.reranking = _find_file(directory, RERANKING)
        queries, documents = (_find_file(directory, names) or self.reranking for names in (QUERIES, DOCUMENTS))
        if not queries or not documents:
            raise InputError(_missing_file_message(directory, queries, documents))
        self._queries, self._documents = queries, documents
        self.topic_files = [queries]
        self.corpus_files = list(dict.fromkeys([documents, self.reranking or documents]))

    @staticmethod
    def is_in(directory: Path) -> bool:
        """Return whether a directory has files of a TIREx data set."""
        names = [*QUERIES, *RERANKING, *DOCUMENTS]
        if named(directory, "topics*.xml"):  # next to topics*.xml, corpus.jsonl may be anything
            names.remove("corpus.jsonl")
        return _find_file(directory, names) is not None

    def topics(self) -> Records:
        topics, issues = _drop_repeated(self._queries, *self._read(self._queries, [fields.QID, fields.QUERY]), "qid", "query")
        empty_queries = topics[topics["query"].str.strip() == ""]
        expected = 'expected lines {"qid": "1", "query": "…"}'
        for qid, line in empty_queries[["qid", "line"]].itertuples(index=False):
            issues.append(f"{self._queries}, line {line}: topic {short(qid)} has an empty query; {expected}")
        if not len(topics) and not issues:
            issues.append(f"{self._queries}: no queries; {expected}")
        return in_order(topics[["qid", "query"]]), issues

    def documents(self) -> Records:
        records, issues = self._read(self._documents, [fields.DOCNO, fields.TEXT])
        documents, issues = _drop_repeated(self._documents, records, issues, "docno", "text")
        if not issues:
            log.info("%s: %d documents", self._documents.name, len(documents))
            if self._documents != self.reranking and len(documents) < len(records):
                log.warning("dropped %d documents repeated with the same text", len(records) - len(documents))
        documents = documents.sort_values("docno", ignore_index=True)
        columns = {"docno": documents["docno"], "conclusion": documents["text"], "premise": documents["text"]}
        return pd.DataFrame(columns), issues

    def parts(self) -> Iterator[pd.DataFrame]:
        if self._documents == self.reranking:
            documents, issues = self.documents()
            if issues:
                raise InputError(issues[0])
            yield documents
            return
        for batch in parts_of(strict(iter_records(self._documents, [fields.DOCNO, fields.TEXT]))):
            docnos, texts, _ = zip(*batch, strict=True)
            yield pd.DataFrame({"docno": docnos, "conclusion": texts, "premise": texts}, dtype=object)

    def listed(self) -> pd.DataFrame | None:
        if not self.reranking:
            return None
        candidates, issues = self._candidates
        if issues:
            raise InputError(issues[0])
        return candidates[["qid", "docno", "rank", "score", "line"]]

    def _read(self, file: Path, columns: Sequence[Field]) -> Records:
        return self._candidates if file == self.reranking else read_records(file, columns)

    @cached_property
    def _candidates(self) -> Records:
        """Candidates, with queries and texts if these have no other file."""
        if not self.reranking:
            raise AssertionError("no rerank.jsonl")
        query_fields = [fields.LISTED_QUERY] if self._queries == self.reranking else []
        text_fields = [fields.TEXT] if self._documents == self.reranking else []
        return read_records(self.reranking, [fields.QID, *query_fields, fields.DOCNO, *text_fields, fields.RANK, fields.SCORE])


def _find_file(directory: Path, names: Sequence[str]) -> Path | None:
    """Return the first existing file of the names, plain or gzipped; None if none."""
    return next((file for name in names for file in named(directory, name, f"{name}.gz")), None)


def _missing_file_message(directory: Path, queries: Path | None, documents: Path | None) -> str:
    """Return a message for a missing file, or for one in BEIR format."""
    for file, hint in ((queries, BEIR_QUERIES), (documents, BEIR_DOCUMENTS)):
        if file and begins_as_beir(file):
            return f"{file}: {hint}"
    missing = " or ".join(DOCUMENTS if queries else QUERIES)
    return f"{directory}: no {missing} found; expected it or {RERANKING[0]} (optionally .gz)"


def _drop_repeated(file: Path, records: pd.DataFrame, issues: list[str], id_column: str, text_column: str) -> Records:
    """Return the first record of each id, and the issues with those of ids that have different texts."""
    first = records.drop_duplicates(id_column)
    expected = records[id_column].map(dict(zip(first[id_column], first[text_column], strict=True)))
    first_lines = dict(zip(first[id_column], first["line"], strict=True))
    differing = records[expected != records[text_column]]
    conflicts = [
        f"{file}, line {line}: {id_column} {short(identifier)} repeated with different {text_column} (first in line "
        f"{first_lines[identifier]}); ids must be unique"
        for identifier, line in differing[[id_column, "line"]].itertuples(index=False)
    ]
    return first, [*issues, *conflicts]
