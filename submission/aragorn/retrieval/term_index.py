"""Build and read the term index of a collection: integer term frequencies by term and by document.

Retrieval models and query expansions are applied at query time. Documents are numbered by ascending
docno, terms alphabetically. The frequencies are those in the texts, or those that a tagger
assigns.

terms.txt        terms, one per line
occurrences.npy  (terms,) int64: collection frequencies (cf)
lengths.npy      (documents,) int32: document lengths (dl)
terms-*.npy      terms × documents: term frequencies (tf) in CSR format (see `sparse_matrix`)
documents-*.npy  documents × terms: the same frequencies
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
import pandas as pd

from aragorn.cache import Parts
from aragorn.engine.base import CPU, LOCAL_ENGINE, Engine
from aragorn.engine.shards import Shard, compute_shards
from aragorn.retrieval.fields import Fields, select_texts
from aragorn.retrieval.sparse_matrix import (
    CSR_FILES,
    CSRMatrix,
    allocate_matrix,
    merge_shards,
    write_npy,
)
from aragorn.text.index_terms import END_OF_TEXT, Stemmer, TermAnalyser, split_tokens

VERSION = 1  # of the files of an index

log = logging.getLogger(__name__)

SHARD_SIZE = 16384  # documents per shard
TOKENISE_BATCH = 256  # documents per batch
MATRIX_FILES = [f"{rows}-{name}" for rows in ("terms", "documents") for name in CSR_FILES]
INDEX_FILES = ("terms.txt", "occurrences.npy", "lengths.npy", *MATRIX_FILES)


class IndexSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Text fields and stemmer of a term index."""

    fields: Fields = "conclusion premise"
    stemmer: Stemmer = "porter"


@dataclass(frozen=True)
class CollectionStatistics:
    """Statistics of a collection and of selected terms, for retrieval models."""

    document_count: int  # number of documents (N)
    token_count: int  # total document length (T)
    df: np.ndarray  # (terms,) document frequency
    cf: np.ndarray  # (terms,) collection frequency


class TermIndex:
    """Memory-mapped inverted and forward index of term frequencies, with the collection
    statistics."""

    def __init__(self, directory: Path, settings: IndexSettings) -> None:
        """Open the index in a directory, which was built with these settings."""
        files = [directory / name for name in INDEX_FILES]
        self._settings, self.analyser = settings, TermAnalyser(settings.stemmer)
        terms, cf, lengths, *matrices = files
        self.terms = terms.read_text(encoding="utf-8").split("\n")[:-1]
        self.term_ids = {term: index for index, term in enumerate(self.terms)}
        self.lengths = np.load(lengths)
        self.by_term, self.by_document = CSRMatrix(matrices[:3]), CSRMatrix(matrices[3:])
        self._df, self._cf = (
            np.append(counts, 0) for counts in (np.diff(self.by_term.indptr), np.load(cf))
        )
        self.token_count = int(self.lengths.sum(dtype=np.int64))
        size = sum(file.stat().st_size for file in files) / 1e6
        message = "term index: %d documents, %d terms, %d tokens, %.1f MB"
        log.info(message, len(self.lengths), len(self.terms), self.token_count, size)

    def analyse_query(self, text: str) -> list[str]:
        """Return the index terms of a query in text order, with repetitions."""
        return self.analyser.analyse(text)

    def count_terms(self, documents: pd.DataFrame) -> list[Counter[str]]:
        """Count the terms of each document `conclusion premise`; the documents need not be
        indexed."""
        return [
            Counter(self.analyser.analyse(text))
            for text in select_texts(documents, self._settings.fields)
        ]

    def count_enriched_terms(self, words: Mapping[str, int]) -> Counter[str]:
        """Count the index terms of a document from the word frequencies that a tagger assigns to
        it."""
        counts: Counter[str] = Counter()
        for word, frequency in words.items():
            for term in self.analyser.analyse(word):
                counts[term] += frequency
        return counts

    def get_statistics(self, terms: Sequence[str]) -> CollectionStatistics:
        """Return the collection statistics with the df and cf of `terms`, in order; 0 for a term
        that is not in the index."""
        # -1: the appended 0
        term_ids = np.array([self.term_ids.get(term, -1) for term in terms], dtype=np.int64)
        return CollectionStatistics(
            len(self.lengths), self.token_count, self._df[term_ids], self._cf[term_ids]
        )

    def get_postings(self, term: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the document numbers, ascending, and term frequencies of a term's postings; both
        empty for unknown terms."""
        term_id = self.term_ids.get(term)
        return (
            self.by_term.get_row(term_id)
            if term_id is not None
            else (np.empty(0, np.int32), np.empty(0, np.int32))
        )

    def get_document_terms(self, document: int) -> tuple[list[str], np.ndarray]:
        """Return a document's terms, ascending, and their frequencies."""
        terms, frequencies = self.by_document.get_row(document)
        return [self.terms[term] for term in terms], frequencies


# word frequencies of documents `start` to `end - 1`
FrequencyLoader = Callable[[int, int], Sequence[Mapping[str, int]]]


class _ShardCounts(msgspec.Struct):
    """Term counts of a shard, sorted by document, then term; arrays are stored as int32 bytes."""

    terms: list[str]  # ascending
    lengths: bytes  # (documents,) document lengths
    distinct_counts: bytes  # (documents,) number of distinct terms per document
    term_ids: bytes  # (entries,) positions in `terms`
    frequencies: bytes  # (entries,) term frequencies

    def get_array(self, name: str) -> np.ndarray:
        return np.frombuffer(getattr(self, name), np.int32)


def build_term_index(
    directory: Path,
    docnos: list[str],
    load_documents: Callable[[list[str]], pd.DataFrame],
    settings: IndexSettings,
    parts: Parts,
    enrich: Callable[[], FrequencyLoader] | None = None,
    engine: Engine = LOCAL_ENGINE,
) -> None:
    """Count the terms of each shard that `parts` lacks, then merge the shards into the files of a
    `TermIndex`, with common term numbers.

    Args:
        directory: Directory of the index.
        docnos: Document ids, ascending.
        load_documents: Function that loads `docno conclusion premise` by docno, in order.
        settings: Fields and stemmer.
        parts: Finished shards, of the same documents, settings and tagger.
        enrich: Function that enriches the collection and returns a loader of the word frequencies
            to index; None: index the words of the texts.
        engine: Engine that computes the shards.
    """
    load_frequencies = enrich() if enrich else None

    def make_shard(start: int) -> Shard[Sequence[Any]]:
        name, shard = f"{start:09}", docnos[start : start + SHARD_SIZE]
        if load_frequencies:
            return Shard(name, len(shard), partial(load_frequencies, start, start + SHARD_SIZE))
        return Shard(
            name,
            len(shard),
            lambda: select_texts(load_documents(shard), settings.fields),
            can_load_remotely=True,
        )

    starts = range(0, len(docnos), SHARD_SIZE)
    count: Callable[[Sequence[Any]], bytes] = partial(
        _count_enriched if enrich else _count_texts, settings.stemmer
    )
    read_shard = compute_shards(
        count, [*map(make_shard, starts)], parts, engine, CPU, "term index", "documents"
    )
    _get_analyser.cache_clear()  # its cache holds the terms of every distinct token
    _merge_shards(read_shard, starts, [directory / name for name in INDEX_FILES])


def _merge_shards(
    read_shard: Callable[[int], bytes], starts: Sequence[int], files: Sequence[Path]
) -> None:
    """Write the index files from the counts of all shards."""

    def iter_shards() -> Iterator[_ShardCounts]:
        return (
            msgspec.msgpack.decode(read_shard(index), type=_ShardCounts)
            for index in range(len(starts))
        )

    vocabulary: set[str] = set()
    lengths, distinct_counts = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for shard in iter_shards():
        vocabulary.update(shard.terms)
        lengths.append(shard.get_array("lengths"))
        distinct_counts.append(shard.get_array("distinct_counts"))
    terms = sorted(vocabulary)
    ids = {term: index for index, term in enumerate(terms)}

    def merge_ids(shard: _ShardCounts) -> np.ndarray:
        return np.array([ids[term] for term in shard.terms], dtype=np.int32)

    df_by_shard, collection_frequencies = [], np.zeros(len(terms), dtype=np.int64)
    _, indices, data = allocate_matrix(np.concatenate(distinct_counts), np.int32, files[6:])
    end = 0
    for shard in iter_shards():
        merged_ids = merge_ids(shard)
        term, frequency = merged_ids[shard.get_array("term_ids")], shard.get_array("frequencies")
        start, end = end, end + len(term)
        indices[start:end], data[start:end] = term, frequency
        df_by_shard.append(np.bincount(term, minlength=len(terms)))
        collection_frequencies += np.bincount(term, weights=frequency, minlength=len(terms)).astype(
            np.int64
        )
    indices.flush()
    data.flush()

    def iter_by_term() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start, shard in zip(starts, iter_shards(), strict=True):
            documents = np.arange(
                start, start + len(shard.get_array("distinct_counts")), dtype=np.int32
            )
            order = _stable_argsort(merge_ids(shard)[shard.get_array("term_ids")])
            yield (
                np.repeat(documents, shard.get_array("distinct_counts"))[order],
                shard.get_array("frequencies")[order],
            )

    merge_shards(iter_by_term(), df_by_shard, np.int32, files[3:6])
    files[0].write_text("".join(f"{term}\n" for term in terms), encoding="utf-8")
    write_npy(files[1], collection_frequencies)
    write_npy(files[2], np.concatenate(lengths))


@lru_cache(maxsize=1)
def _get_analyser(stemmer: Stemmer) -> TermAnalyser:
    return TermAnalyser(stemmer)


def _count_texts(stemmer: Stemmer, texts: Sequence[str]) -> bytes:
    """Count the terms of a shard of texts; return encoded `_ShardCounts`."""
    token_ids: defaultdict[bytes, int] = defaultdict()  # ids in order of first occurrence
    token_ids.default_factory = token_ids.__len__
    end = token_ids[END_OF_TEXT]
    batches = [
        texts[start : start + TOKENISE_BATCH] for start in range(0, len(texts), TOKENISE_BATCH)
    ]
    token_batches = [_assign_ids(split_tokens(batch), token_ids) for batch in batches]
    analyser = _get_analyser(stemmer)
    token_terms = _TokenTerms.build([analyser[token] for token in token_ids])
    arrays: list[tuple[np.ndarray, ...]] = []
    for batch in token_batches:  # small batches stay in the CPU cache
        ends = np.flatnonzero(batch == end)
        # Integers that combine document and term sort several times faster than pairs.
        document = np.repeat(np.arange(len(ends)) << 32, np.diff(ends, prepend=-1))
        packed_entries = np.repeat(document, token_terms.sizes[batch]) + token_terms.look_up(batch)
        packed_entries.sort()
        starts = np.flatnonzero(np.diff(packed_entries, prepend=-1))
        arrays.append(
            _unpack_entries(
                packed_entries[starts], np.diff(starts, append=len(packed_entries)), len(ends)
            )
        )
    return _encode_shard(token_terms.terms, arrays)


def _count_enriched(stemmer: Stemmer, documents: Sequence[Mapping[str, int]]) -> bytes:
    """Count the terms of a shard of documents from their word frequencies; return encoded
    `_ShardCounts`."""
    word_ids: defaultdict[str, int] = defaultdict()  # ids in order of first occurrence
    word_ids.default_factory = word_ids.__len__
    batches = [
        documents[start : start + TOKENISE_BATCH]
        for start in range(0, len(documents), TOKENISE_BATCH)
    ]
    word_batches = [_assign_ids([*chain.from_iterable(batch)], word_ids) for batch in batches]
    analyser = _get_analyser(stemmer)
    word_terms = _TokenTerms.build([analyser.analyse(word) for word in word_ids])
    arrays: list[tuple[np.ndarray, ...]] = []
    for batch, word in zip(batches, word_batches, strict=True):
        document = np.repeat(np.arange(len(batch)) << 32, [len(words) for words in batch])
        frequency = np.fromiter(
            chain.from_iterable(words.values() for words in batch), np.int64, len(word)
        )
        sizes = word_terms.sizes[word]
        packed_entries = np.repeat(document, sizes) + word_terms.look_up(word)
        order = np.argsort(packed_entries)
        starts = np.flatnonzero(np.diff(packed_entries[order], prepend=-1))
        frequency_sums = (
            np.add.reduceat(np.repeat(frequency, sizes)[order], starts) if len(starts) else starts
        )
        arrays.append(_unpack_entries(packed_entries[order][starts], frequency_sums, len(batch)))
    return _encode_shard(word_terms.terms, arrays)


class _TokenTerms(NamedTuple):
    """Index terms of numbered tokens, concatenated in one array."""

    terms: list[str]  # ascending
    term_ids: np.ndarray  # positions in `terms` of the terms of all tokens
    sizes: np.ndarray  # (tokens,) number of terms per token
    starts: np.ndarray  # (tokens,) start of each token's terms in `term_ids`

    @classmethod
    def build(cls, terms_by_token: Sequence[Sequence[str]]) -> Self:
        """Concatenate the terms of each token."""
        terms = sorted({*chain.from_iterable(terms_by_token)})
        ids = {term: index for index, term in enumerate(terms)}
        term_ids = np.array(
            [ids[term] for term in chain.from_iterable(terms_by_token)], dtype=np.int64
        )
        sizes = np.array([len(token_terms) for token_terms in terms_by_token], dtype=np.int64)
        return cls(terms, term_ids, sizes, sizes.cumsum() - sizes)

    def look_up(self, token_ids: np.ndarray) -> np.ndarray:
        """Return the term ids of tokens, concatenated in the order of the tokens."""
        sizes = self.sizes[token_ids]
        positions = np.repeat(self.starts[token_ids] - (sizes.cumsum() - sizes), sizes) + np.arange(
            sizes.sum()
        )
        return np.asarray(self.term_ids[positions])


def _unpack_entries(
    packed_entries: np.ndarray, frequencies: np.ndarray, document_count: int
) -> tuple[np.ndarray, ...]:
    """Unpack sorted integers document · 2³² + term, and return the arrays of `_ShardCounts` in
    field order."""
    document, term = packed_entries >> 32, packed_entries & 0xFFFFFFFF
    lengths = np.bincount(document, weights=frequencies, minlength=document_count)
    return lengths, np.bincount(document, minlength=document_count), term, frequencies


def _encode_shard(terms: list[str], arrays: list[tuple[np.ndarray, ...]]) -> bytes:
    """Concatenate the arrays of a shard's batches and encode them with its terms."""
    fields = (
        np.concatenate(array).astype(np.int32).tobytes() for array in zip(*arrays, strict=True)
    )
    return msgspec.msgpack.encode(_ShardCounts(terms, *fields))


def _assign_ids(tokens: list[Any], ids: defaultdict[Any, int]) -> np.ndarray:
    return np.fromiter(map(ids.__getitem__, tokens), np.int32, len(tokens))


def _stable_argsort(values: np.ndarray) -> np.ndarray:
    """Compute a stable argsort of non-negative int32 values, several times faster than
    np.argsort."""
    return np.sort((values.astype(np.int64) << 32) + np.arange(len(values))) & 0xFFFFFFFF
