"""The term index of a collection: how often each term occurs in each document, both ways, and nothing but whole numbers.

Every model, every grid of parameters and every expansion is computed from it when a topic is asked. Documents and terms are
numbered in ascending order of docno and term. What it counts are the words of the texts, or those that an enrichment gives in
their place, with other frequencies.

terms.txt        one a line
occurrences.npy  (terms,) int64: of each term in the collection (cf)
lengths.npy      (documents,) int32: terms in a document (dl)
terms-*.npy      rows: terms; columns: documents; values: tf (see `rows`)
documents-*.npy  rows: documents; columns: terms; values: tf
"""

from __future__ import annotations

import logging
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
import numpy as np
import pandas as pd

from submission.disk.kept import Kept
from submission.engine.engine import CPU, HERE, Engine
from submission.engine.parts import Part, kept_parts
from submission.retrieval.rows import FILES, Rows, append_rows, write_array, write_rows
from submission.text.terms import END, Stemmer, Terms, tokens

log = logging.getLogger(__name__)

KEPT_TOGETHER = 16384  # documents, while building
AT_A_TIME = 256  # documents whose tokens are in memory
PARTS = "parts"
NAMES = ("terms.txt", "occurrences.npy", "lengths.npy", *(f"{way}-{name}" for way in ("terms", "documents") for name in FILES))
Fields = Literal["conclusion premise", "premise"]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a term index: fields and stemmer."""

    fields: Fields = "conclusion premise"
    stemmer: Stemmer = "porter"


@dataclass(frozen=True)
class Statistics:
    """Collection statistics of some terms; those of shards add up to those of the whole."""

    documents: int  # N
    tokens: int  # T, the sum of all lengths
    df: np.ndarray  # (terms,) documents that have a term
    cf: np.ndarray  # (terms,) occurrences of a term

    def __add__(self, other: Statistics) -> Statistics:
        """Add the statistics of two shards."""
        return Statistics(self.documents + other.documents, self.tokens + other.tokens, self.df + other.df, self.cf + other.cf)


class TermIndex:
    """An opened term index."""

    def __init__(self, files: Sequence[Path], settings: Settings) -> None:
        """Open the files of an index of these settings; what is said of each posting stays on disk until it is asked for."""
        self._settings, self._terms_of = settings, Terms(settings.stemmer)
        terms, occurrences, lengths, *rows = files
        self.terms = terms.read_text(encoding="utf-8").split("\n")[:-1]
        self.numbers = {term: number for number, term in enumerate(self.terms)}
        self.lengths = np.load(lengths)
        self.by_term, self.by_document = Rows(rows[:3]), Rows(rows[3:])
        self._occurrences = np.load(occurrences)
        self.tokens = int(self.lengths.sum(dtype=np.int64))

    def read(self, text: str) -> list[str]:
        """The index terms of a title."""
        return self._terms_of.of(text)

    def counted(self, documents: pd.DataFrame) -> list[Counter[str]]:
        """Count the terms of documents `conclusion premise`, indexed or not."""
        return [Counter(self._terms_of.of(text)) for text in texts_of(documents, self._settings.fields)]

    def counted_words(self, words: Mapping[str, int]) -> Counter[str]:
        """Count the terms of a document given its words with their frequencies."""
        return _added_up(words, self._terms_of)

    def statistics(self, terms: Sequence[str]) -> Statistics:
        """Return the statistics of some terms, known or not."""
        known = np.array([self.numbers.get(term, -1) for term in terms], dtype=np.int64)
        df = np.where(known < 0, 0, np.diff(self.by_term.indptr)[known]) if len(self.terms) else known * 0
        cf = np.where(known < 0, 0, self._occurrences[known]) if len(self.terms) else known * 0
        return Statistics(len(self.lengths), self.tokens, df, cf)

    def postings(self, term: str) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the documents that have a term, ascending, and how often."""
        number = self.numbers.get(term)
        return self.by_term.row(number) if number is not None else (np.empty(0, np.int32), np.empty(0, np.int32))

    def document(self, number: int) -> tuple[list[str], np.ndarray]:
        """The terms of a document, ascending, and how often."""
        terms, frequencies = self.by_document.row(number)
        return [self.terms[term] for term in terms], frequencies


def texts_of(documents: pd.DataFrame, fields: Fields) -> list[str]:
    """Return the texts to index; a TIREx text stands for conclusion and premise, and is taken once."""
    if fields == "premise":
        return documents["premise"].tolist()
    rows = zip(documents["conclusion"], documents["premise"], strict=True)
    return [premise if conclusion == premise else f"{conclusion} {premise}" for conclusion, premise in rows]


class Enriched(Protocol):
    """Index terms of documents in place of those of their texts."""

    def between(self, start: int, end: int) -> Sequence[Mapping[str, int]]:
        """The words of the documents with these numbers, the last excluded, each with its frequency."""


def term_index(
    collection: list[str],
    texts: Callable[[list[str]], pd.DataFrame],
    settings: Settings,
    kept: Kept,
    enrich: Callable[[], Enriched] | None = None,
    engine: Engine = HERE,
) -> TermIndex:
    """The index of a collection, made unless it is kept. Parts that an interrupted process finished are used.

    Args:
        collection: the docnos.
        texts: gives `docno conclusion premise` of some of them, in their order; asked only if there is something to build.
        settings: what is indexed.
        kept: where it is kept; it must be of this very collection, these settings and this enrichment.
        enrich: gives the words of the collection, in its order; None: they are those of the texts.
        engine: where the parts are computed.

    Raises:
        OutputError: that place cannot be written.
    """
    files = kept.make(NAMES, partial(_build, collection, texts, settings, kept, enrich, engine))
    shutil.rmtree(kept.directory / PARTS, ignore_errors=True)
    index = TermIndex(files, settings)
    size = sum(file.stat().st_size for file in files) / 1e6
    log.info("term index: %d documents, %d terms, %d tokens, %.1f MB", len(index.lengths), len(index.terms), index.tokens, size)
    return index


class _Counts(msgspec.Struct):
    """Term counts of some documents, by document, then term, as the bytes of int32."""

    terms: list[str]  # ascending
    lengths: bytes  # of each document
    distinct: bytes  # terms of each document
    term: bytes  # of each entry
    frequency: bytes  # of each entry

    def array(self, name: str) -> np.ndarray:
        """Return one of the arrays."""
        return np.frombuffer(getattr(self, name), np.int32)


def _build(
    collection: list[str],
    texts: Callable[[list[str]], pd.DataFrame],
    settings: Settings,
    kept: Kept,
    enrich: Callable[[], Enriched] | None,
    engine: Engine,
    *files: Path,
) -> None:
    """Part by part, then all parts under one numbering of terms."""
    enriched = enrich() if enrich else None
    starts = range(0, len(collection), KEPT_TOGETHER)

    def part(start: int) -> Part[Sequence[Any]]:
        name, docnos = f"{start:09}.msgpack", collection[start : start + KEPT_TOGETHER]
        if enriched:
            return Part(name, len(docnos), partial(enriched.between, start, start + KEPT_TOGETHER))
        return Part(name, len(docnos), lambda: texts_of(texts(docnos), settings.fields), travels=True)

    parts, place = [part(start) for start in starts], Kept(kept.directory / PARTS, {})
    count = Counted(_counted_words if enriched else _counted, settings.stemmer)
    content = kept_parts(count, parts, place, engine, CPU, "term index", "documents")

    def counted() -> Iterator[_Counts]:
        return (msgspec.msgpack.decode(content(number), type=_Counts) for number in range(len(parts)))

    known: set[str] = set()
    lengths, distinct = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for found in counted():
        known.update(found.terms)
        lengths.append(found.array("lengths"))
        distinct.append(found.array("distinct"))
    terms = sorted(known)
    numbers = {term: number for number, term in enumerate(terms)}

    def numbered(found: _Counts) -> np.ndarray:
        of_own = np.array([numbers[term] for term in found.terms], dtype=np.int32)
        return np.asarray(of_own[found.array("term")])

    counts = []  # of each part: the documents that have a term
    occurrences = np.zeros(len(terms), dtype=np.int64)

    def by_document() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for found in counted():
            term, frequency = numbered(found), found.array("frequency")
            counts.append(np.bincount(term, minlength=len(terms)))
            occurrences[:] += np.bincount(term, weights=frequency, minlength=len(terms)).astype(np.int64)
            yield term, frequency

    def by_term() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start, found in zip(starts, counted(), strict=True):
            first = np.int32(start)
            documents = np.arange(first, first + np.int32(len(found.array("distinct"))), dtype=np.int32)
            order = _order(numbered(found))
            yield np.repeat(documents, found.array("distinct"))[order], found.array("frequency")[order]

    append_rows(by_document(), np.concatenate(distinct), np.int32, files[6:])
    write_rows(by_term(), counts, np.int32, files[3:6])
    files[0].write_text("".join(f"{term}\n" for term in terms), encoding="utf-8")
    for file, array in ((files[1], occurrences), (files[2], np.concatenate(lengths))):
        write_array(file, array)


@dataclass(frozen=True)
class Counted:
    """Counts a part as the content of a file; can be pickled for another process."""

    count: Callable[[Any, Terms], bytes]  # of texts, or of documents that are words with frequencies
    stemmer: Stemmer

    def __call__(self, documents: Sequence[Any]) -> bytes:
        """The terms of some documents."""
        return self.count(documents, self._terms_of)

    @cached_property
    def _terms_of(self) -> Terms:
        return Terms(self.stemmer)


def _counted(texts: list[str], terms_of: Terms) -> bytes:
    """The part of some documents."""
    numbers: defaultdict[bytes, int] = defaultdict()  # of tokens, as they are met
    numbers.default_factory = numbers.__len__
    end = numbers[END]
    tokenised = [_numbered(tokens(texts[first : first + AT_A_TIME]), numbers) for first in range(0, len(texts), AT_A_TIME)]
    flat = _Flat.of([terms_of[one] for one in numbers])
    arrays: list[tuple[np.ndarray, ...]] = []
    for token in tokenised:  # a few documents' numbers stay in the processor's cache, and no memory is asked of the system
        ends = np.flatnonzero(token == end)
        # An entry is its document and its term in one number, which is sorted several times as fast as two.
        document = np.repeat(np.arange(len(ends)) << 32, np.diff(ends, prepend=-1))
        place = np.repeat(document, flat.sizes[token]) + flat.numbers(token)
        place.sort()
        starts = np.flatnonzero(np.diff(place, prepend=-1))
        arrays.append(_entries(place[starts], np.diff(starts, append=len(place)), len(ends)))
    return _packed(flat.terms, arrays)


def _counted_words(documents: Sequence[Mapping[str, int]], terms_of: Terms) -> bytes:
    """The part of some documents that are words with frequencies."""
    numbers: defaultdict[str, int] = defaultdict()  # of words, as they are met
    numbers.default_factory = numbers.__len__
    parts = [documents[first : first + AT_A_TIME] for first in range(0, len(documents), AT_A_TIME)]
    numbered = [_numbered([*chain.from_iterable(part)], numbers) for part in parts]
    flat = _Flat.of([terms_of.of(word) for word in numbers])
    arrays: list[tuple[np.ndarray, ...]] = []
    for part, word in zip(parts, numbered, strict=True):
        document = np.repeat(np.arange(len(part)) << 32, [len(words) for words in part])
        frequency = np.fromiter(chain.from_iterable(words.values() for words in part), np.int64, len(word))
        its = flat.sizes[word]
        place = np.repeat(document, its) + flat.numbers(word)
        order = np.argsort(place)
        starts = np.flatnonzero(np.diff(place[order], prepend=-1))
        summed = np.add.reduceat(np.repeat(frequency, its)[order], starts) if len(starts) else starts
        arrays.append(_entries(place[order][starts], summed, len(part)))
    return _packed(flat.terms, arrays)


class _Flat(NamedTuple):
    """The index terms of numbered tokens, one token's behind the other's."""

    terms: list[str]  # ascending
    number: np.ndarray  # of a token's terms among these
    sizes: np.ndarray  # (tokens,) how many terms each has
    first: np.ndarray  # (tokens,) where they begin in `number`

    @classmethod
    def of(cls, of_token: Sequence[Sequence[str]]) -> _Flat:
        """From the terms of each token."""
        terms = sorted({*chain.from_iterable(of_token)})
        number_of = {term: number for number, term in enumerate(terms)}
        number = np.array([number_of[term] for term in chain.from_iterable(of_token)], dtype=np.int64)
        sizes = np.array([len(its) for its in of_token], dtype=np.int64)
        return cls(terms, number, sizes, sizes.cumsum() - sizes)

    def numbers(self, token: np.ndarray) -> np.ndarray:
        """The numbers of the terms of some tokens, in their order."""
        its = self.sizes[token]
        place = np.repeat(self.first[token] - (its.cumsum() - its), its) + np.arange(its.sum())
        return np.asarray(self.number[place])


def _entries(place: np.ndarray, frequency: np.ndarray, documents: int) -> tuple[np.ndarray, ...]:
    """The arrays of `_Counts` of entries that are document and term in one number, ascending, and how often."""
    document, term = place >> 32, place & 0xFFFFFFFF
    lengths = np.bincount(document, weights=frequency, minlength=documents)
    return lengths, np.bincount(document, minlength=documents), term, frequency


def _packed(terms: list[str], arrays: list[tuple[np.ndarray, ...]]) -> bytes:
    """The content of a part's file, from the arrays of a few documents each."""
    made = (np.concatenate(array).astype(np.int32).tobytes() for array in zip(*arrays, strict=True))
    return msgspec.msgpack.encode(_Counts(terms, *made))


def _added_up(words: Mapping[str, int], terms_of: Terms) -> Counter[str]:
    """Index terms by the frequencies of all words that they come from."""
    count: Counter[str] = Counter()
    for word, frequency in words.items():
        for term in terms_of.of(word):
            count[term] += frequency
    return count


def _numbered(found: list[Any], numbers: defaultdict[Any, int]) -> np.ndarray:
    return np.fromiter(map(numbers.__getitem__, found), np.int32, len(found))


def _order(number: np.ndarray) -> np.ndarray:
    """Compute a stable argsort, several times as fast as numpy's."""
    return np.sort((number.astype(np.int64) << 32) + np.arange(len(number))) & 0xFFFFFFFF
