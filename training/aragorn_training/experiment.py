"""Compute the cells of an experiment in parallel, cache each result, and resume after an
interruption."""

import hashlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
import numpy as np
from aragorn.progress import track_weighted
from aragorn.storage.artifact_store import (
    ArtifactStore,
    decode_npy,
    encode_npy,
    write_journaled_artifact,
)
from aragorn.storage.atomic_files import remove_stale_files

from aragorn_training.parallel import map_parallel

log = logging.getLogger(__name__)

Cell = TypeVar("Cell", bound=Hashable)
Result = TypeVar("Result")


class Experiment(ABC, Generic[Cell, Result]):
    """A set of independent measurements (cells). With several processes, the experiment, cells and
    results are pickled."""

    unit: ClassVar[str]  # unit of `cost`, plural
    result_type: ClassVar[type[Any]]  # numpy array or a type that msgspec can encode

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the cache directory, also used in log messages."""

    @abstractmethod
    def get_cache_key(self, cell: Cell) -> object:
        """Return all values that determine a cell's result; the hash of their `repr` names its
        file."""

    @abstractmethod
    def compute(self, cell: Cell) -> Result:
        """Compute the result of a cell."""

    def get_group(self, cell: Cell) -> Hashable:
        """Return the group of a cell, by default itself; one process computes the cells of a group
        in order."""
        return cell

    def estimate_cost(self, cell: Cell) -> int:
        """Return the estimated cost of a cell in `unit`, by default 1."""
        return 1


def run_experiment(
    experiment: Experiment[Cell, Result],
    cells: Sequence[Cell],
    cache_dir: Path,
    process_count: int | None = None,
) -> dict[Cell, Result]:
    """Return the results of all cells; compute those that are not cached, most expensive groups
    first.

    Errors of `compute` propagate; finished results stay cached.

    Args:
        experiment: Experiment to run.
        cells: Distinct cells.
        cache_dir: Parent of the cache directory.
        process_count: Number of groups computed in parallel, one thread each. None: one cell at a
            time, on all threads.

    Returns:
        Results by cell, in the order of `cells`.
    """
    cache = ArtifactStore(cache_dir / f"{experiment.name}-results", {})
    remove_stale_files(cache.directory)
    results = {
        cell: msgspec.msgpack.decode(
            encoded_result, type=experiment.result_type, dec_hook=_decode_array
        )
        for cell in cells
        if (encoded_result := cache.read(_build_file_name(experiment, cell))) is not None
    }
    if results:
        log.info("%s: %d of %d results cached", experiment.name, len(results), len(cells))
    groups: dict[Hashable, list[Cell]] = {}
    for cell in cells:
        if cell not in results:
            groups.setdefault(experiment.get_group(cell), []).append(cell)
    costs = {cell: experiment.estimate_cost(cell) for group in groups.values() for cell in group}
    batches = sorted(groups.values(), key=lambda group: -sum(costs[cell] for cell in group))
    if process_count is None or process_count == 1:
        # report progress and save results per cell
        batches = [[cell] for group in batches for cell in group]
    compute = partial(_compute_batch, experiment, cache.directory)
    local_completions = zip(batches, map(compute, batches), strict=True)
    completions = (
        map_parallel(compute, batches, process_count) if process_count else local_completions
    )
    weighted_results = (
        (batch_results, sum(costs[cell] for cell in batch)) for batch, batch_results in completions
    )
    if batches:
        for batch_results in track_weighted(
            weighted_results, sum(costs.values()), experiment.name, experiment.unit
        ):
            results |= batch_results
    return {cell: results[cell] for cell in cells}


def _compute_batch(
    experiment: Experiment[Cell, Result], cache_dir: Path, cells: Sequence[Cell]
) -> dict[Cell, Result]:
    """Compute a batch of cells, cache each result and return the results by cell."""
    batch_results = {}
    for cell in cells:
        batch_results[cell] = experiment.compute(cell)
        content = msgspec.msgpack.encode(batch_results[cell], enc_hook=encode_npy)
        write_journaled_artifact(cache_dir / _build_file_name(experiment, cell), content)
    return batch_results


def _build_file_name(experiment: Experiment[Cell, Result], cell: Cell) -> str:
    return hashlib.sha256(repr(experiment.get_cache_key(cell)).encode()).hexdigest()[:32]


def _decode_array(expected_type: type[Any], encoded_array: bytes) -> np.ndarray:
    return decode_npy(encoded_array)
