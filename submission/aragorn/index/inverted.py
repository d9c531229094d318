"""Build inverted indexes, and map them into memory.

An index is a sparse matrix whose rows are terms and whose columns are documents. A matrix consists
of three files of plain numbers, in the layout of compressed sparse rows:

NAME.starts   (rows + 1,) int64: position of each row's first entry
NAME.columns  (entries,) int32: column numbers
NAME.values   (entries,): values

An `InvertedIndex` of term frequencies has two matrices, by_term and by_document, and

terms.txt    terms in the order of their numbers, one per line
cf.npy       (terms,) int64: collection frequencies
lengths.npy  (documents,) int32: document lengths
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from aragorn.cache import encode_npy
from aragorn.text.index_terms import END_OF_TEXT

if TYPE_CHECKING:
    from scipy.sparse import csr_array

VERSION = 1  # of the files of an index
COMPUTES_WITH = ("aragorn.text.index_terms", "numpy", "scipy")

T = TypeVar("T")
ROWS_PER_BLOCK = 16384  # rows that are read at a time

Token = bytes | str  # of a text, or a word of an enriched document


def select_top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the positions of the k highest scores (N,), descending; ties go to the first position.

    Takes O(N + k log k) time if few scores are equal.
    """
    if len(scores) <= k:
        return np.argsort(-scores, kind="stable")
    candidates = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
    return candidates[np.argsort(-scores[candidates], kind="stable")[:k]]


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Memory-mapped sparse matrix."""

    starts: np.ndarray  # (rows + 1,) int64
    columns: np.ndarray  # (entries,) int32
    values: np.ndarray  # (entries,)

    @classmethod
    def open(cls, directory: Path, name: str, dtype: type[np.generic]) -> SparseMatrix:
        """Map a matrix that `write_matrix` has written with values of this type."""
        starts = np.fromfile(directory / f"{name}.starts", np.int64)
        columns = _map_file(directory / f"{name}.columns", np.int32)
        return cls(starts, columns, _map_file(directory / f"{name}.values", dtype))

    def get_row(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the column numbers and values of a row."""
        entries = slice(self.starts[row], self.starts[row + 1])
        return self.columns[entries], self.values[entries]

    def count_entries(self) -> np.ndarray:
        """Return the number of entries of each row (rows,)."""
        return np.diff(self.starts)


def _map_file(file: Path, dtype: type[np.generic]) -> np.ndarray:
    if not file.stat().st_size:
        return np.empty(0, dtype)
    # A plain array: slicing np.memmap gets slower with each slice.
    return np.asarray(np.memmap(file, dtype, mode="r"))


def write_matrix(directory: Path, name: str, blocks: Iterable[csr_array]) -> int:
    """Write blocks of consecutive rows, of ever more columns, as one matrix; return its number
    of columns."""
    starts = [np.zeros(1, np.int64)]
    n_entries = 0
    n_columns = 0
    with (
        (directory / f"{name}.columns").open("wb") as columns,
        (directory / f"{name}.values").open("wb") as values,
    ):
        for block in blocks:
            columns.write(block.indices.astype(np.int32, copy=False).data)
            values.write(block.data.data)
            starts.append(n_entries + block.indptr[1:].astype(np.int64))
            n_entries += block.nnz
            n_columns = block.shape[1]
    (directory / f"{name}.starts").write_bytes(np.concatenate(starts).data)
    return n_columns


def read_blocks(
    directory: Path, name: str, dtype: type[np.generic], n_columns: int
) -> Iterator[csr_array]:
    """Yield blocks of rows of a matrix of `write_matrix`; a map's pages would stay in memory."""
    starts = np.fromfile(directory / f"{name}.starts", np.int64)
    with (
        (directory / f"{name}.columns").open("rb") as columns,
        (directory / f"{name}.values").open("rb") as values,
    ):
        for row in range(0, len(starts) - 1, ROWS_PER_BLOCK):
            bounds = starts[row : row + ROWS_PER_BLOCK + 1] - starts[row]
            block_columns = np.fromfile(columns, np.int32, bounds[-1])
            block_values = np.fromfile(values, dtype, bounds[-1])
            yield _build_csr(block_values, block_columns, bounds[1:], n_columns)


def transpose_matrix(
    directory: Path, name: str, dtype: type[np.generic], n_columns: int
) -> csr_array:
    """Transpose a matrix of `write_matrix` block by block, because scipy needs twice the memory for
    all rows at once."""
    sizes = np.zeros(n_columns, np.int64)
    for block in read_blocks(directory, name, dtype, n_columns):
        sizes += np.bincount(block.indices, minlength=n_columns)
    ends = np.cumsum(sizes)
    next_free = ends - sizes
    n_entries = sizes.sum()
    columns = np.empty(n_entries, np.int32)
    values = np.empty(n_entries, dtype)
    n_rows = 0
    for block in read_blocks(directory, name, dtype, n_columns):
        transposed = block.T.tocsr()
        sizes = np.diff(transposed.indptr)
        offsets = np.repeat(next_free - transposed.indptr[:-1], sizes)
        positions = offsets + np.arange(block.nnz)
        columns[positions] = transposed.indices + n_rows
        values[positions] = transposed.data
        next_free += sizes
        n_rows += block.shape[0]
    return _build_csr(values, columns, ends, n_rows)


class TermCounter:
    """Counter of the terms of documents, which numbers terms by first occurrence."""

    def __init__(self, get_terms: Callable[[Any], Sequence[str]]) -> None:
        """Create a counter; `get_terms` returns the terms of a token, usually one."""
        self.term_numbers: dict[str, int] = {}  # of all terms so far
        self._get_terms = get_terms

    def count(self, tokens: Iterable[Token], frequencies: np.ndarray | None = None) -> csr_array:
        """Return the frequencies (documents, terms) int32 of terms.

        `tokens` are those of all documents, with END_OF_TEXT after each; `frequencies` (tokens,)
        int32 are those in their document, None: all 1.
        """
        token_columns, distinct_tokens = _factorise(chain([END_OF_TEXT], tokens))
        token_columns = token_columns[1:]
        if frequencies is None:
            frequencies = np.ones_like(token_columns)
        ends = np.flatnonzero(token_columns == 0) + 1
        token_counts = _build_csr(frequencies, token_columns, ends, len(distinct_tokens))

        terms = [(), *map(self._get_terms, distinct_tokens[1:])]
        # numbered within these documents first: the product is faster with fewer columns
        term_columns, block_terms = _factorise(chain.from_iterable(terms))
        ends = np.cumsum([len(token_terms) for token_terms in terms])
        terms_by_token = _build_csr(
            np.ones_like(term_columns), term_columns, ends, len(block_terms)
        )
        term_counts = token_counts @ terms_by_token

        for term in block_terms:
            self.term_numbers.setdefault(term, len(self.term_numbers))
        columns = np.array([self.term_numbers[term] for term in block_terms], np.int32)
        columns = columns[term_counts.indices]
        n_columns = len(self.term_numbers)
        return _build_csr(term_counts.data, columns, term_counts.indptr[1:], n_columns)


def _factorise(items: Iterable[T]) -> tuple[np.ndarray, list[T]]:
    """Factorise items by first occurrence; return the index of each, and the distinct items."""
    indices = defaultdict[T, int]()
    indices.default_factory = indices.__len__
    return np.fromiter(map(indices.__getitem__, items), np.int32), list(indices)


def _build_csr(
    values: np.ndarray, columns: np.ndarray, ends: np.ndarray, n_columns: int
) -> csr_array:
    """Build a sparse matrix whose rows end at the positions `ends` of the values."""
    from scipy.sparse import csr_array  # takes .2 s to import; searching does without it

    # scipy would copy the columns if the bounds of rows were of another type
    bounds = np.append(0, ends).astype(np.int32)
    return csr_array((values, columns, bounds), shape=(len(ends), n_columns))


@dataclass(frozen=True)
class Statistics:
    """Statistics of a collection and of selected terms, for retrieval models."""

    n_documents: int  # N
    total_length: int  # T, the sum of document lengths
    df: np.ndarray  # (terms,) document frequencies
    cf: np.ndarray  # (terms,) collection frequencies


class InvertedIndex:
    """Memory-mapped term frequencies of documents, by term and by document."""

    def __init__(self, directory: Path) -> None:
        """Open an index that `write_index` has written."""
        self.terms = (directory / "terms.txt").read_text(encoding="utf-8").split("\n")[:-1]
        self.term_numbers = {term: row for row, term in enumerate(self.terms)}
        self.by_term = SparseMatrix.open(directory, "by_term", np.int32)
        self.by_document = SparseMatrix.open(directory, "by_document", np.int32)
        self.lengths: np.ndarray = np.load(directory / "lengths.npy")
        self.total_length = int(self.lengths.sum(dtype=np.int64))
        # with the 0 of unknown terms at the end
        self._df = np.append(self.by_term.count_entries(), 0)
        self._cf = np.append(np.load(directory / "cf.npy"), 0)

    def get_statistics(self, terms: Sequence[str]) -> Statistics:
        """Return statistics with df and cf in the order of `terms`; 0 for unknown terms."""
        rows = np.array([self.term_numbers.get(term, -1) for term in terms], dtype=np.int64)
        return Statistics(len(self.lengths), self.total_length, self._df[rows], self._cf[rows])

    def get_postings(self, term: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the document numbers, ascending, and frequencies of a term; empty if unknown."""
        if term not in self.term_numbers:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        return self.by_term.get_row(self.term_numbers[term])

    def get_document_terms(self, document: int) -> tuple[list[str], np.ndarray]:
        """Return a document's terms, in no particular order, and their frequencies."""
        columns, frequencies = self.by_document.get_row(document)
        return [self.terms[column] for column in columns], frequencies


def write_index(directory: Path, blocks: Iterable[csr_array], terms: Iterable[str]) -> None:
    """Write the index of documents to an existing directory.

    `blocks` are the term frequencies (documents, terms) int32 of consecutive documents; `terms`,
    the term of each column, are read after the last block.
    """
    lengths = [np.empty(0, np.int32)]

    def measure_blocks() -> Iterator[csr_array]:
        for block in blocks:
            lengths.append(block.sum(axis=1).astype(np.int32))
            yield block

    write_matrix(directory, "by_document", measure_blocks())
    term_list = list(terms)
    by_term = transpose_matrix(directory, "by_document", np.int32, len(term_list))
    write_matrix(directory, "by_term", [by_term])
    # block by block, because scipy copies the values that it sums
    cf = np.zeros(len(term_list), np.int64)
    for block in read_blocks(directory, "by_document", np.int32, len(term_list)):
        cf += block.sum(axis=0)
    (directory / "terms.txt").write_text(
        "".join(f"{term}\n" for term in term_list), encoding="utf-8"
    )
    # np.save to a file ignores an error when its last block is written, e.g. on a full disk
    (directory / "cf.npy").write_bytes(encode_npy(cf))
    (directory / "lengths.npy").write_bytes(encode_npy(np.concatenate(lengths)))
