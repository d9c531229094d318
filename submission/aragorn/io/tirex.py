"""Read TIREx data sets: JSON Lines of queries and documents, or of candidates to re-rank.

queries.jsonl    {qid, query}
documents.jsonl  {docno, text}; or corpus.jsonl
rerank.jsonl     {qid, query, docno, text, rank, score}: candidates; also queries and documents if
                 their files are missing

All files may be gzipped. Ids are strings or integers; rank and score are optional. Field names vary
between TIRA's client and ir_datasets, see the record types.
"""

import json
import logging
from collections.abc import Iterator
from math import isfinite, nan
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from aragorn.errors import InputError, abbreviate
from aragorn.io.files import ID_RULE, is_invalid_id, quote_id, read_jsonl
from aragorn.io.touche import describe_invalid_qid
from aragorn.io.trec import parse_float

VERSION = 1  # of topics, documents and candidates read from the same files
COMPUTES_WITH = ("aragorn.io.touche",)

log = logging.getLogger(__name__)

QUERIES_FILE = "queries.jsonl"
RERANK_FILE = "rerank.jsonl"
DOCUMENTS_FILES = ("documents.jsonl", "corpus.jsonl")
RANK_LIMIT = 10**9  # ranks must be smaller
UNSUPPORTED = "; BEIR (`_id`) and `segments` are not supported"
EXPECTED_QUERIES = f'expected lines {{"qid": "1", "query": "…"}}{UNSUPPORTED}'
EXPECTED_DOCUMENTS = f'expected lines {{"docno": "1", "text": "…"}}{UNSUPPORTED}'
EXPECTED_CANDIDATES = (
    'expected lines {"qid": "1", "docno": "1"}, with query and text if their files are missing'
)

Id = int | str | UnsetType
Text = str | UnsetType


class CandidateQuery(msgspec.Struct, gc=False):
    """Query in a line of rerank.jsonl; of alternative fields, the first is set when decoded."""

    qid: Id = UNSET
    query_id: Id = UNSET
    query: Text = UNSET

    def __post_init__(self) -> None:
        self.qid = _get_qid(self)
        self.query = query = _get(self, "query", "default_text", "text")
        if not query.strip():
            raise ValueError(f"topic {abbreviate(self.qid)} has an empty query")


class Query(CandidateQuery, gc=False):
    """Line of queries.jsonl."""

    default_text: Text = UNSET
    text: Text = UNSET


class Document(msgspec.Struct, gc=False):
    """Line of documents.jsonl, or a candidate as a document, decoded as a query."""

    docno: Id = UNSET
    doc_id: Id = UNSET
    docid: Id = UNSET
    text: Text = UNSET
    default_text: Text = UNSET

    def __post_init__(self) -> None:
        self.docno = _get_docno(self)
        self.text = _get(self, "text", "default_text")


class Candidate(msgspec.Struct, gc=False):
    """Line of rerank.jsonl, without query and text, decoded as a query; a missing rank or score is
    NaN."""

    qid: Id = UNSET
    query_id: Id = UNSET
    docno: Id = UNSET
    doc_id: Id = UNSET
    docid: Id = UNSET
    rank: Any = UNSET
    score: Any = UNSET

    def __post_init__(self) -> None:
        self.qid = _get_qid(self)
        self.docno = _get_docno(self)
        self.rank = nan if self.rank is UNSET else _parse_rank(self.rank)
        self.score = nan if self.score is UNSET else _parse_score(self.score)


def read_queries(file: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, qid and query of each topic of queries.jsonl or rerank.jsonl, once each.

    Raises InputError for the first invalid line, a topic with two queries, or if there is none.
    """
    is_candidates = file.name.startswith(RERANK_FILE)
    records = read_jsonl(file, CandidateQuery if is_candidates else Query, EXPECTED_QUERIES)
    topics = ((line, str(record.qid), str(record.query)) for line, record in records)
    n_topics = 0
    for topic in _drop_repeated(file, topics, "qid", "query"):
        n_topics += 1
        yield topic
    if not n_topics:
        raise InputError(file, "", "no queries", EXPECTED_QUERIES)


def read_documents(file: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, docno and text of each document, perhaps repeated; may raise InputError."""
    for line, record in read_jsonl(file, Document, EXPECTED_DOCUMENTS):
        yield line, str(record.docno), str(record.text)


def read_unique_documents(file: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the documents of a file once; raise InputError for a docno with two texts."""
    return _drop_repeated(file, read_documents(file), "docno", "text")


def read_candidates(file: Path) -> Iterator[tuple[int, str, str, float, float]]:
    """Yield line, qid, docno, rank and score of each candidate, with NaN for missing values.

    Raises InputError for the first invalid line, or if only some lines have a rank or score.
    """
    first: tuple[int, str, str, float, float] | None = None
    for line, record in read_jsonl(file, Candidate, EXPECTED_CANDIDATES):
        row = (line, str(record.qid), str(record.docno), record.rank, record.score)
        first = first or row
        for name, value, first_value in (("rank", row[3], first[3]), ("score", row[4], first[4])):
            if isfinite(value) != isfinite(first_value):
                present, absent = (first, row) if isfinite(first_value) else (row, first)
                reason = f"line {present[0]} has a {name} and line {absent[0]} has none"
                location = f"line {line} (qid {abbreviate(row[1])}, docno {abbreviate(row[2])})"
                raise InputError(file, location, reason, "provide it in all lines or in none")
        yield row


def _drop_repeated(
    file: Path, records: Iterator[tuple[int, str, str]], id_name: str, text_name: str
) -> Iterator[tuple[int, str, str]]:
    """Yield the first record of each id; raise InputError for an id with two texts."""
    first: dict[str, tuple[int, str]] = {}
    n_repeated = 0
    for line, identifier, text in records:
        first_line, first_text = first.setdefault(identifier, (line, text))
        if first_line == line:
            yield line, identifier, text
            continue
        n_repeated += 1
        if text != first_text:
            reason = (
                f"{id_name} {abbreviate(identifier)} repeated with different {text_name} "
                f"(first in line {first_line})"
            )
            raise InputError(file, f"line {line}", reason, "ids must be unique")
    if n_repeated and not file.name.startswith(RERANK_FILE):  # candidates repeat both
        log.warning("%s: dropped %d repeated ids (same %s)", file.name, n_repeated, text_name)


def _get(record: object, *names: str) -> Any:
    """Return the value of several names; raise ValueError if there is none, or two."""
    values = {name: value for name in names if (value := getattr(record, name, UNSET)) is not UNSET}
    if not values:
        raise ValueError(f"missing {names[0]}")
    if len(values) > 1 and len({*map(str, values.values())}) > 1:
        listing = " and ".join(f"{name} is {_format(value)}" for name, value in values.items())
        raise ValueError(f"{listing}; remove one")
    return next(iter(values.values()))


def _get_docno(record: Document | Candidate) -> str:
    docno = str(_get(record, "docno", "doc_id", "docid"))
    if is_invalid_id(docno):
        raise ValueError(f"docno is {quote_id(docno)}; {ID_RULE}")
    return docno


def _get_qid(record: CandidateQuery | Candidate) -> str:
    qid = str(_get(record, "qid", "query_id"))
    if rule := describe_invalid_qid(qid):
        raise ValueError(f"qid is '{abbreviate(qid)}'; {rule}")
    return qid


def _parse_score(value: object) -> float:
    score = _parse_number(value)
    if not isfinite(score):
        raise ValueError(
            f"score is {_format(value)}; expected a finite number, or none in any line"
        )
    return score


def _parse_rank(value: object) -> float:
    rank = _parse_number(value)
    if not (0 <= rank < RANK_LIMIT and rank.is_integer()):
        expected = f"expected a non-negative integer below {RANK_LIMIT:,}, or none in any line"
        raise ValueError(f"rank is {_format(value)}; {expected}")
    return rank


def _parse_number(value: object) -> float:
    """Return a finite number, or the text of one, as a float; NaN if it is neither."""
    text = str(value) if type(value) in (int, float, str) else ""
    value_or_none = parse_float(text) if text == text.strip() else None
    return nan if value_or_none is None else value_or_none


def _format(value: object) -> str:
    if isinstance(value, str):
        return f"'{abbreviate(value)}'"
    return abbreviate(json.dumps(value, ensure_ascii=False))
