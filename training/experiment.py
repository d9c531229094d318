"""Run an experiment: compute each of its cells once, keep the results on disk, resume where a process was killed."""

from __future__ import annotations

import hashlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

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


class Experiment(ABC, Generic[C, R]):
    """A measurement of many cells. With processes, the experiment, its cells and their results are pickled."""

    unit: ClassVar[str]  # of `size`, in the plural
    result: ClassVar[type[Any]]  # R: an array, or a type that msgspec encodes

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in log lines, and of the directory of the results."""

    @abstractmethod
    def key(self, cell: C) -> object:
        """Return all that decides a cell's result; its `repr` is hashed."""

    @abstractmethod
    def compute(self, cell: C) -> R:
        """Compute the result of a cell."""

    def group(self, cell: C) -> Hashable:
        """Return the group of a cell: one process computes the cells of a group, in the order given."""
        return cell

    def size(self, cell: C) -> int:
        """Return how much work a cell is, in units."""
        return 1


def run(experiment: Experiment[C, R], cells: Sequence[C], directory: Path, processes: int | None = None) -> dict[C, R]:
    """Compute the cells whose results are not kept, the largest groups first.

    Args:
        experiment: computes the cells.
        cells: each once.
        directory: where the folder of the results is.
        processes: number of groups computed at a time, each on one thread; None: cell by cell, on all threads of this process.

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
