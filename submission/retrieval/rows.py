"""Sparse rows of numbers on disk, memory-mapped: an index's postings by term, or a document's terms.

indptr.npy   (rows + 1,) int64: where a row begins
indices.npy  (entries,) int32: ascending within a row
data.npy     (entries,): of each
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

Mapped = np.memmap[Any, Any]
FILES = ("indptr.npy", "indices.npy", "data.npy")


class Rows:
    """A sparse matrix in compressed rows."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Open the three files; entries stay on disk until they are asked for."""
        indptr, indices, data = files
        self.indptr = np.load(indptr)
        # As plain arrays: numpy's own class for mapped ones is slower with each part that is taken of it.
        self.indices, self.data = (np.asarray(np.load(file, mmap_mode="r")) for file in (indices, data))

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.indptr) - 1

    def row(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The indices and data of a row."""
        entries = slice(self.indptr[number], self.indptr[number + 1])
        return self.indices[entries], self.data[entries]


def append_rows(
    parts: Iterable[tuple[np.ndarray, np.ndarray]], lengths: np.ndarray, value: type[np.generic], files: Sequence[Path]
) -> None:
    """Put parts of whole rows behind each other.

    Args:
        parts: the indices and data of each, by row, then index.
        lengths: (rows,) the entries of each row of all parts.
        value: the type of the data.
        files: the three files.
    """
    _, indices, data = _opened(lengths, value, files)
    end = 0
    for part in parts:
        start, end = end, end + len(part[0])
        indices[start:end], data[start:end] = part
    indices.flush()
    data.flush()


def write_rows(
    parts: Iterable[tuple[np.ndarray, np.ndarray]], counts: Sequence[np.ndarray], value: type[np.generic], files: Sequence[Path]
) -> None:
    """Put parts that each have some of every row behind each other row by row.

    Args:
        parts: the indices and data of each, by row, then index; the indices of a later part are the higher ones.
        counts: (rows,) of each part, how many entries of a row it has.
        value: the type of the data.
        files: the three files.
    """
    indptr, indices, data = _opened(reduce(np.add, counts, np.zeros(1, np.int64)), value, files)
    for part, places in zip(parts, _places(indptr, counts), strict=True):
        indices[places], data[places] = part
    indices.flush()
    data.flush()


def write_array(file: Path, array: np.ndarray) -> None:
    """As .npy: np.save alone would add an ending to the name."""
    with file.open("wb") as stream:
        np.save(stream, array)


def _opened(lengths: np.ndarray, value: type[np.generic], files: Sequence[Path]) -> tuple[np.ndarray, Mapped, Mapped]:
    """The indptr of rows of such lengths, written, and the two other files to be filled."""
    indptr = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
    write_array(files[0], indptr)
    size = (int(indptr[-1]),)
    return indptr, allocated(files[1], np.int32, size), allocated(files[2], value, size)


def _places(indptr: np.ndarray, counts: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    """Compute the place of each entry of each part: from its row's first free place on."""
    free = indptr[:-1].copy()
    for count in counts:
        yield np.repeat(free - (count.cumsum() - count), count) + np.arange(count.sum())
        free += count


def allocated(file: Path, dtype: type[np.generic], shape: tuple[int, ...]) -> Mapped:
    """A new .npy file to be filled, its space taken: writing into a mapped file on a full disk would kill the process."""
    array = np.lib.format.open_memmap(file, "w+", dtype, shape)
    with file.open("r+b") as stream:
        os.posix_fallocate(stream.fileno(), 0, file.stat().st_size)
    return array
