"""Run jobs in worker processes with one thread each, which is faster than one process with many
threads."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import TypeVar

import torch
from aragorn.cpu_cores import count_cpu_cores
from aragorn.progress import configure_logging

Job = TypeVar("Job")
Result = TypeVar("Result")


def map_parallel(
    function: Callable[[Job], Result], jobs: Sequence[Job], process_count: int
) -> Iterator[tuple[Job, Result]]:
    """Yield (job, result) in order of completion; jobs start in order. Results do not depend on
    `process_count`.

    Each process has one thread. If `process_count` is 1, jobs run in the calling process; otherwise
    the function (which must be module-level), jobs and results are pickled. Errors of the function
    propagate after the running jobs have finished; pending jobs are cancelled.
    """
    if process_count == 1:
        n_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            for job in jobs:
                yield job, function(job)
        finally:
            torch.set_num_threads(n_threads)
        return
    with ProcessPoolExecutor(process_count, get_context("spawn"), _initialise_worker) as pool:
        futures = {pool.submit(function, job): job for job in jobs}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()


def get_default_process_count(device: torch.device) -> int:
    """Return the number of usable CPU cores, or 1 if the device is a GPU."""
    return count_cpu_cores() if device.type == "cpu" else 1


def _initialise_worker() -> None:
    """Set up logging, threads and signals of a worker, and make it exit with its parent."""
    # Ctrl-C reaches the whole process group; only the parent reports it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    configure_logging()
    Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent:
        parent.join()
    os._exit(1)
