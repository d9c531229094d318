"""Run the cells of an experiment in parallel, cache each result and resume after interruption."""

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
    """A set of independent measurements (cells). With several processes, experiment, cells and results are pickled."""

    unit: ClassVar[str]  # unit of `size`, plural
    result: ClassVar[type[Any]]  # numpy array or a type that msgspec can encode

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in log messages and of the cache directory."""

    @abstractmethod
    def key(self, cell: C) -> object:
        """Return everything that a cell's result depends on; its `repr` is hashed."""

    @abstractmethod
    def compute(self, cell: C) -> R:
        """Compute the result of a cell."""

    def group(self, cell: C) -> Hashable:
        """Return a cell's group; one process computes a group's cells in order."""
        return cell

    def size(self, cell: C) -> int:
        """Return the estimated cost of a cell, in `unit`."""
        return 1


def run(experiment: Experiment[C, R], cells: Sequence[C], directory: Path, processes: int | None = None) -> dict[C, R]:
    """Compute all cells without a cached result, most expensive groups first.

    Args:
        experiment: Experiment to run.
        cells: Distinct cells.
        directory: Parent of the cache directory.
        processes: Number of groups computed in parallel, one thread each. None: one cell at a time, on all threads of this
            process.

    Returns:
        Results by cell, in the order of `cells`.

    Raises:
        OutputError: If a result cannot be written. Errors of `compute` propagate; finished results stay cached.
    """
    cache = Results(directory / f"{experiment.name}-results", experiment.result)
    cache.prepare()
    results = {cell: cached for cell in cells if (cached := cache.read(experiment.key(cell))) is not None}
    if results:
        log.info("%s: %d of %d results cached", experiment.name, len(results), len(cells))
    groups: dict[Hashable, list[C]] = {}
    for cell in cells:
        if cell not in results:
            groups.setdefault(experiment.group(cell), []).append(cell)
    costs = {cell: experiment.size(cell) for group in groups.values() for cell in group}
    batches = sorted(groups.values(), key=lambda group: -sum(costs[cell] for cell in group))
    if processes is None or processes == 1:
        batches = [[cell] for group in batches for cell in group]  # report progress and save results per cell
    compute = partial(_computed, experiment, cache)
    done = side_by_side(compute, batches, processes) if processes else ((batch, compute(batch)) for batch in batches)
    with_cost = ((batch_results, sum(costs[cell] for cell in batch)) for batch, batch_results in done)
    if batches:
        for batch_results in progress_of(with_cost, sum(costs.values()), experiment.name, experiment.unit):
            results |= batch_results
    return {cell: results[cell] for cell in cells}


def _computed(experiment: Experiment[C, R], results: Results[R], cells: Sequence[C]) -> dict[C, R]:
    """Compute a batch of cells and cache each result as soon as it is finished."""
    batch_results = {}
    for cell in cells:
        batch_results[cell] = experiment.compute(cell)
        results.write(experiment.key(cell), batch_results[cell])
    return batch_results


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
