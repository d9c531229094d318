"""Read and write memory-mapped sparse matrices in CSR format, and select the highest scores.

indptr.npy   (rows + 1,) int64: start of each row's entries
indices.npy  (entries,) int32: column indices, ascending within a row
data.npy     (entries,): values
"""

import os
from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np


def select_top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the positions of the k highest scores (N,), descending; ties go to the first position.

    Takes O(N + k log k) time if few scores are equal, because it selects before sorting.
    """
    if len(scores) <= k:
        return np.argsort(-scores, kind="stable")
    candidates = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
    return candidates[np.argsort(-scores[candidates], kind="stable")[:k]]


MemoryMap = np.memmap[Any, Any]
CSR_FILES = ("indptr.npy", "indices.npy", "data.npy")


class CSRMatrix:
    """Sparse matrix in CSR format, whose column indices and values are memory-mapped."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Open the files of a matrix, in the order of `CSR_FILES`."""
        indptr, indices, data = files
        self.indptr = np.load(indptr)
        # Plain arrays: slicing np.memmap gets slower with each slice.
        self.indices, self.data = (
            np.asarray(np.load(file, mmap_mode="r")) for file in (indices, data)
        )

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.indptr) - 1

    def get_row(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the column indices and values of a row."""
        span = slice(self.indptr[index], self.indptr[index + 1])
        return self.indices[span], self.data[span]


def merge_shards(
    shards: Iterable[tuple[np.ndarray, np.ndarray]],
    counts: Sequence[np.ndarray],
    dtype: type[np.generic],
    files: Sequence[Path],
) -> None:
    """Merge shards of consecutive columns into a matrix.

    Args:
        shards: Column indices and values of each shard, sorted by row, then column.
        counts: Number of entries per row (rows,), for each shard.
        dtype: Type of the values.
        files: Files to write, in the order of `CSR_FILES`.
    """
    indptr, indices, data = allocate_matrix(
        reduce(np.add, counts, np.zeros(1, np.int64)), dtype, files
    )
    next_free = indptr[:-1].copy()
    for shard, count in zip(shards, counts, strict=True):
        positions = np.repeat(next_free - (count.cumsum() - count), count) + np.arange(count.sum())
        indices[positions], data[positions] = shard
        next_free += count
    indices.flush()
    data.flush()


def allocate_matrix(
    lengths: np.ndarray, dtype: type[np.generic], files: Sequence[Path]
) -> tuple[np.ndarray, MemoryMap, MemoryMap]:
    """Write `indptr` for rows with `lengths` (rows,) entries, and allocate `indices` and `data`;
    return all three."""
    indptr = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
    write_npy(files[0], indptr)
    size = (int(indptr[-1]),)
    return indptr, allocate_npy(files[1], np.int32, size), allocate_npy(files[2], dtype, size)


def write_npy(file: Path, array: np.ndarray) -> None:
    """Write a .npy file under exactly this name; np.save would append a suffix to a path without
    .npy."""
    with file.open("wb") as stream:
        np.save(stream, array)


def allocate_npy(file: Path, dtype: type[np.generic], shape: tuple[int, ...]) -> MemoryMap:
    """Create a memory-mapped .npy file and reserve its disk space; writing to a map on a full disk
    would kill the process."""
    array = np.lib.format.open_memmap(file, "w+", dtype, shape)
    with file.open("r+b") as stream:
        os.posix_fallocate(stream.fileno(), 0, file.stat().st_size)
    return array
