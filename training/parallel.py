"""Run tasks in worker processes with one thread each, which is faster than one process with many threads."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import TypeVar

import torch
from joblib import cpu_count

from submission.logging_setup import log_to_stderr

P = TypeVar("P")
R = TypeVar("R")


def side_by_side(function: Callable[[P], R], parts: Sequence[P], processes: int) -> Iterator[tuple[P, R]]:
    """Yield (task, result) in order of completion; tasks start in order. The number of processes does not change results.

    Args:
        function: Module-level function, pickled with tasks and results if there is more than one process.
        parts: Independent tasks.
        processes: Number of parallel processes with one thread each; 1: this process.

    Raises:
        Errors of the function propagate after running tasks have finished; pending tasks are cancelled.
    """
    if processes == 1:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            for task in parts:
                yield task, function(task)
        finally:
            torch.set_num_threads(threads)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), _begin) as pool:
        futures = {pool.submit(function, task): task for task in parts}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()


def at_a_time(device: torch.device) -> int:
    """Return the number of usable CPU cores; 1 on a GPU."""
    return cpu_count() if device.type == "cpu" else 1


def _begin() -> None:
    """Set up logging, threads and signals of a worker, and make it exit with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; only the parent reports it
    torch.set_num_threads(1)
    log_to_stderr()
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent:
        parent.join()
    os._exit(1)
