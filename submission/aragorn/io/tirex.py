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
from collections.abc import Callable, Iterator
from math import isfinite, nan
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from aragorn.errors import InputError, abbreviate
from aragorn.io.files import ID_RULE, is_invalid_id, quote_id, read_jsonl
from aragorn.io.touche import describe_invalid_qid
from aragorn.io.trec import parse_float

VERSION = 1  # of topics, documents and candidates read from the same files

log = logging.getLogger(__name__)

QUERIES_FILE = "queries.jsonl"
RERANK_FILE = "rerank.jsonl"
DOCUMENTS_FILES = ("documents.jsonl", "corpus.jsonl")
RANK_LIMIT = 10**9  # ranks must be smaller
UNSUPPORTED = "; BEIR (`_id`) and `segments` are not supported"

T = TypeVar("T")
Id = int | str | UnsetType
Text = str | UnsetType


class Query(msgspec.Struct, gc=False):
    """Line of queries.jsonl; fields of a kind are alternatives."""

    qid: Id = UNSET
    query_id: Id = UNSET
    query: Text = UNSET
    default_text: Text = UNSET
    text: Text = UNSET


class Document(msgspec.Struct, gc=False):
    """Line of documents.jsonl, or a candidate as a document."""

    docno: Id = UNSET
    doc_id: Id = UNSET
    docid: Id = UNSET
    text: Text = UNSET
    default_text: Text = UNSET


class Candidate(msgspec.Struct, gc=False):
    """Line of rerank.jsonl, without its text."""

    qid: Id = UNSET
    query_id: Id = UNSET
    query: Any = UNSET  # not used if there are queries
    docno: Id = UNSET
    doc_id: Id = UNSET
    docid: Id = UNSET
    rank: Any = UNSET
    score: Any = UNSET


def read_queries(file: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, qid and query of each topic of queries.jsonl or rerank.jsonl, once each.

    Raises InputError for the first invalid line, a topic with two queries, or if there is none.
    """
    expected = 'expected lines {"qid": "1", "query": "…"}'

    def parse(record: Any) -> tuple[str, str]:
        has_documents = isinstance(record, Candidate)
        names = ("query",) if has_documents else ("query", "default_text", "text")
        qid = _get_qid(record)
        query = _get(record, *names)
        if not isinstance(query, str):
            raise ValueError(f"query is {_format(query)}; expected a string")
        if not query.strip():
            raise ValueError(f"topic {abbreviate(qid)} has an empty query; {expected}")
        return qid, query

    is_candidates = file.name.startswith(RERANK_FILE)
    records = _read(file, Candidate if is_candidates else Query, parse, expected)
    n_topics = 0
    for topic in _drop_repeated(file, records, "qid", "query"):
        n_topics += 1
        yield topic
    if not n_topics:
        raise InputError(file, "", "no queries", expected)


def read_documents(file: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, docno and text of each document, perhaps repeated; may raise InputError."""

    def parse(record: Document) -> tuple[str, str]:
        return _get_docno(record), _get(record, "text", "default_text")

    return _read(file, Document, parse, 'expected lines {"docno": "1", "text": "…"}')


def read_unique_documents(file: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the documents of a file once; raise InputError for a docno with two texts."""
    return _drop_repeated(file, read_documents(file), "docno", "text")


def read_candidates(file: Path) -> Iterator[tuple[int, str, str, float, float]]:
    """Yield line, qid, docno, rank and score of each candidate, with NaN for missing values.

    Raises InputError for the first invalid line, or if only some lines have a rank or score.
    """

    def parse(record: Candidate) -> tuple[str, str, float, float]:
        rank = nan if record.rank is UNSET else _parse_rank(record.rank)
        score = nan if record.score is UNSET else _parse_score(record.score)
        return _get_qid(record), _get_docno(record), rank, score

    expected = (
        'expected lines {"qid": "1", "docno": "1"}, with query and text if their files are missing'
    )
    first: tuple[int, str, str, float, float] | None = None
    for row in _read(file, Candidate, parse, expected):
        first = first or row
        for name, value, first_value in (("rank", row[3], first[3]), ("score", row[4], first[4])):
            if isfinite(value) != isfinite(first_value):
                present, absent = (first, row) if isfinite(first_value) else (row, first)
                reason = f"line {present[0]} has a {name} and line {absent[0]} has none"
                location = f"line {row[0]} (qid {abbreviate(row[1])}, docno {abbreviate(row[2])})"
                raise InputError(file, location, reason, "provide it in all lines or in none")
        yield row


def _read(
    file: Path, record_type: type[T], parse: Callable[[T], tuple[Any, ...]], expected: str
) -> Iterator[Any]:
    """Yield line number and values of each record; ValueErrors of `parse` become InputErrors."""
    for line, record in read_jsonl(file, record_type, expected):
        try:
            values = parse(record)
        except KeyError as error:
            reason = f"missing {error.args[0]}"
            raise InputError(file, f"line {line}", reason, f"{expected}{UNSUPPORTED}") from None
        except ValueError as error:
            raise InputError(file, f"line {line}", str(error)) from None
        yield (line, *values)


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
    """Return the value of several names; raise KeyError if there is none, ValueError if two."""
    values = {name: value for name in names if (value := getattr(record, name)) is not UNSET}
    if not values:
        raise KeyError(names[0])
    if len(values) > 1 and len({*map(str, values.values())}) > 1:
        listing = " and ".join(f"{name} is {_format(value)}" for name, value in values.items())
        raise ValueError(f"{listing}; remove one")
    return next(iter(values.values()))


def _get_docno(record: Document | Candidate) -> str:
    docno = str(_get(record, "docno", "doc_id", "docid"))
    if is_invalid_id(docno):
        raise ValueError(f"docno is {quote_id(docno)}; {ID_RULE}")
    return docno


def _get_qid(record: Query | Candidate) -> str:
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
    number = parse_float(text) if text == text.strip() else None
    return nan if number is None else number


def _format(value: object) -> str:
    if isinstance(value, str):
        return f"'{abbreviate(value)}'"
    return abbreviate(json.dumps(value, ensure_ascii=False))
