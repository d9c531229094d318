"""Run an experiment: compute each of its cells once, keep the results on disk, resume where a process was killed."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import numpy as np
import xxhash

from submission.disk.files import make_directory, read_regular, remove_leftovers, write_whole
from submission.disk.kept import array_of, npy
from submission.progress import progress_of
from training.side_by_side import side_by_side

log = logging.getLogger(__name__)

C = TypeVar("C", bound=Hashable)
R = TypeVar("R")
C_contra = TypeVar("C_contra", bound=Hashable, contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class Experiment(Protocol[C_contra, R_co]):
    """A measurement of many cells. With processes, the experiment, its cells and their results are pickled."""

    @property
    def name(self) -> str:
        """The name in log lines, and of the directory of the results."""

    @property
    def unit(self) -> str:
        """The unit of `size`, in the plural."""

    @property
    def result(self) -> type[R_co]:
        """The type of a result: an array, or a type that msgspec encodes."""

    def key(self, cell: C_contra) -> object:
        """Return all that decides a cell's result; its `repr` is hashed."""

    def group(self, cell: C_contra) -> Hashable:
        """Return the group of a cell: one process computes the cells of a group, in the order given."""

    def size(self, cell: C_contra) -> int:
        """Return how much work a cell is, in units."""

    def compute(self, cell: C_contra) -> R_co:
        """Compute the result of a cell."""


def run(experiment: Experiment[C, R], cells: Sequence[C], directory: Path, processes: int | None = None) -> dict[C, R]:
    """Compute the cells whose results are not kept, the largest groups first.

    Args:
        experiment: computes the cells.
        cells: each once.
        directory: the results are kept in a folder of it.
        processes: so many groups at a time, each on one thread; None: one cell after the other, on all threads of this process.

    Returns:
        The results by cell, in the order of the cells.

    Raises:
        OutputError: a result cannot be kept; and what `compute` raises. What is finished stays kept.
    """
    results = Results(directory / f"{experiment.name}-results", experiment.result)
    results.prepare()
    found = {cell: kept for cell in cells if (kept := results.read(experiment.key(cell))) is not None}
    if found:
        log.info("%s: %d of %d results are kept", experiment.name, len(found), len(cells))
    groups: dict[Hashable, list[C]] = {}
    for cell in cells:
        if cell not in found:
            groups.setdefault(experiment.group(cell), []).append(cell)
    sizes = {cell: experiment.size(cell) for group in groups.values() for cell in group}
    parts = sorted(groups.values(), key=lambda group: -sum(sizes[cell] for cell in group))
    if processes is None or processes == 1:
        parts = [[cell] for group in parts for cell in group]  # so that progress and results come cell by cell
    compute = partial(_computed, experiment, results)
    done = side_by_side(compute, parts, processes) if processes else ((part, compute(part)) for part in parts)
    sized = ((some, sum(sizes[cell] for cell in part)) for part, some in done)
    if parts:
        for some in progress_of(sized, sum(sizes.values()), experiment.name, experiment.unit):
            found |= some
    return {cell: found[cell] for cell in cells}


def _computed(experiment: Experiment[C, R], results: Results[R], cells: Sequence[C]) -> dict[C, R]:
    """Compute some cells and keep each result when it is there."""
    found = {}
    for cell in cells:
        found[cell] = experiment.compute(cell)
        results.write(experiment.key(cell), found[cell])
    return found


@dataclass(frozen=True)
class Results(Generic[R]):
    """A directory of results, a file each. A file begins with the hash of its content, so that processes need no record."""

    directory: Path
    result: type[R]

    def prepare(self) -> None:
        """Make the directory, and remove what killed processes left half-written. Raises OutputError."""
        make_directory(self.directory)
        remove_leftovers(self.directory)

    def read(self, key: object) -> R | None:
        """Read a result; None where there is none, or a damaged one."""
        file = self._file(key)
        try:
            content = read_regular(file)
        except FileNotFoundError:
            return None
        except OSError:  # something else has its place
            content = b""
        digest, encoded = content[:16], content[16:]
        if digest != xxhash.xxh3_128_digest(encoded):
            log.warning("%s: not as it was written; computed again", file)
            return None
        return msgspec.msgpack.decode(encoded, type=self.result, dec_hook=_array)

    def write(self, key: object, result: R) -> None:
        """Write a result. Raises OutputError."""
        encoded = msgspec.msgpack.encode(result, enc_hook=npy)
        write_whole(self._file(key), xxhash.xxh3_128_digest(encoded) + encoded)

    def _file(self, key: object) -> Path:
        return self.directory / hashlib.sha256(repr(key).encode()).hexdigest()[:32]


def _array(of: type[Any], encoded: Any) -> np.ndarray:
    return array_of(encoded)
