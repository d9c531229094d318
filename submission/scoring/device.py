"""Where the networks compute, on how many threads, and what happens when a GPU is too small."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from joblib import cpu_count

from submission.errors import UsageError

log = logging.getLogger(__name__)

T = TypeVar("T")
POSITIONS, POSITIONS_ON_GPU = 1024, 65536  # computed at a time: what a block makes of so many stays in a processor's cache


def choose_device(name: str) -> torch.device:
    """The device for auto (the GPU if there is one), cpu or cuda. Raises UsageError: cuda without a GPU."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: there is no CUDA device here; use auto or cpu")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def limit_threads() -> int:
    """Let torch use no more threads than this process may use processors, a container's CPU limit included; how many."""
    torch.set_num_threads(min(torch.get_num_threads(), cpu_count()))  # torch itself does not see the cgroup's limit
    return torch.get_num_threads()


def positions(device: torch.device) -> int:
    """How many positions of texts an encoder computes at a time."""
    return POSITIONS_ON_GPU if device.type == "cuda" else POSITIONS


def in_threads(
    compute: Callable[[np.ndarray], T], work: Sequence[np.ndarray], device: torch.device, join: Callable[[list[T]], T]
) -> list[T]:
    """What `compute` gives for each of some batches of rows, in their order; on a GPU one by one, as `in_halves` says.

    On a CPU each thread computes whole batches: none waits for another within one, and how many there are changes no bit.
    """
    if device.type == "cuda":
        return [in_halves(compute, rows, join) for rows in work]
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(compute, work))
    finally:
        torch.set_num_threads(threads)


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
