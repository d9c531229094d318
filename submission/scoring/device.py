"""Choose the device and the number of threads; halve batches that a GPU has no memory for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from joblib import cpu_count

from submission.engine.engine import HERE, Engine
from submission.errors import UsageError

log = logging.getLogger(__name__)

T = TypeVar("T")
# Computed at a time: what a block makes of so many stays in a processor's cache, in bfloat16 of twice as many.
POSITIONS, POSITIONS_IN_HALF, POSITIONS_ON_GPU = 1024, 2048, 65536


def choose_device(name: str, engine: Engine = HERE) -> torch.device:
    """The device for auto (a GPU if the engine has one), cpu or cuda. Raises UsageError: cuda without a GPU."""
    if name == "cuda" and not engine.has_gpu:
        raise UsageError(f"--device cuda: there is no CUDA device in {engine.about}; use auto or cpu")
    return torch.device("cuda" if name != "cpu" and engine.has_gpu else "cpu")


def limit_threads() -> int:
    """Let torch use no more threads than this process may use processors, a container's CPU limit included; how many."""
    torch.set_num_threads(min(torch.get_num_threads(), cpu_count()))  # torch itself does not see the cgroup's limit
    return torch.get_num_threads()


def positions(device: torch.device, precision: torch.dtype | None = None) -> int:
    """Return the number of positions that an encoder computes at a time on a device, on a CPU in a precision."""
    if device.type == "cuda":
        return POSITIONS_ON_GPU
    return POSITIONS if precision is None else POSITIONS_IN_HALF


@contextmanager
def one_thread() -> Iterator[int]:
    """Let torch compute on one thread, so that how many there are changes no bit; gives how many there were."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


def in_batches(
    compute: Callable[[np.ndarray], T], work: Sequence[np.ndarray], device: torch.device, join: Callable[[list[T]], T]
) -> list[T]:
    """Apply `compute` without gradients to batches of rows, in order; on a GPU by `in_halves`.

    On a CPU each thread computes whole batches: none waits for another within one, and how many there are changes no bit.
    """

    @torch.inference_mode()
    def computed(rows: np.ndarray) -> T:
        return in_halves(compute, rows, join)

    with one_thread() as threads:
        if device.type == "cuda" or threads == 1:
            return [computed(rows) for rows in work]
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(computed, work))


def in_halves(compute: Callable[[np.ndarray], T], rows: np.ndarray, join: Callable[[list[T]], T]) -> T:
    """compute(rows), a value a row; where the GPU's memory does not suffice, of the halves of rows, joined.

    Raises:
        torch.OutOfMemoryError: a single row is too much.
    """
    try:
        return compute(rows)
    except torch.OutOfMemoryError:
        if len(rows) == 1:
            raise
    # Not in the except clause: while the error lives, so do the tensors of its traceback.
    log.warning("the GPU's memory is too small for a batch of %d: computed in halves", len(rows))
    torch.cuda.empty_cache()
    return join([in_halves(compute, half, join) for half in np.array_split(rows, 2)])
