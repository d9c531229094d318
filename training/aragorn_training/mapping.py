"""Apply a function to many arguments, in parallel and with cached results.

Worker processes have one thread each, which is faster than one process with many threads.
"""

import hashlib
import logging
import os
import signal
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import msgspec
import numpy as np
import torch

from aragorn.cache import Parts, decode_npy, encode_npy
from aragorn.progress import configure_logging, track_weighted
from aragorn.threads import count_cpu_cores

log = logging.getLogger(__name__)

Argument = TypeVar("Argument", bound=Hashable)
Job = TypeVar("Job")
Result = TypeVar("Result")


def map_cached(
    function: Callable[[Argument], Result],
    arguments: Sequence[Argument],
    cache_dir: Path,
    *,
    name: str,
    key: object,
    result_type: type[Any],
    identify: Callable[[Argument], object] = repr,
    n_processes: int | None = None,
) -> dict[Argument, Result]:
    """Apply a function to distinct arguments and cache each result, so that a killed call resumes;
    return the results by argument, in this order.

    Calls and their errors are those of `map_parallel`; finished results stay cached.

    Args:
        function: Module-level function, or partial of one.
        arguments: Arguments of the calls.
        cache_dir: Parent of the cached results.
        name: Name of the results, also in log messages.
        key: Values that determine all results, besides the arguments; its `repr` is hashed.
        result_type: numpy array, or a type that msgspec can encode.
        identify: Values that determine an argument's result; their `repr` is hashed.
        n_processes: Number of processes.
    """
    parts = Parts(cache_dir / f"{name}-results")
    names = {
        argument: hashlib.sha256(repr((key, identify(argument))).encode()).hexdigest()[:32]
        for argument in arguments
    }
    contents = {argument: parts.read(part) for argument, part in names.items()}
    results = {
        argument: msgspec.msgpack.decode(content, type=result_type, dec_hook=_decode_array)
        for argument, content in contents.items()
        if content is not None
    }
    if results:
        log.info("%s: %d of %d results cached", name, len(results), len(arguments))
    jobs = [(argument, part) for argument, part in names.items() if argument not in results]
    if jobs:
        completions = map_parallel(partial(_compute, function, parts), jobs, n_processes)
        calls = ((completion, 1) for completion in completions)
        for (argument, _), result in track_weighted(calls, len(jobs), name, "calls"):
            results[argument] = result
    return {argument: results[argument] for argument in arguments}


def _compute(
    function: Callable[[Argument], Result], parts: Parts, job: tuple[Argument, str]
) -> Result:
    """Call a function and keep the result as a part."""
    argument, part = job
    result = function(argument)
    parts.write(part, msgspec.msgpack.encode(result, enc_hook=encode_npy))
    return result


def _decode_array(expected_type: type[Any], encoded_array: bytes) -> np.ndarray:
    return decode_npy(encoded_array)


def map_parallel(
    function: Callable[[Job], Result], jobs: Sequence[Job], n_processes: int | None
) -> Iterator[tuple[Job, Result]]:
    """Yield (job, result) in order of completion; jobs start in order. Results do not depend on
    `n_processes`.

    Each process has one thread. If `n_processes` is 1, jobs run in the calling process, and if it
    is None, on all its threads; otherwise the function (which must be module-level), jobs and
    results are pickled. Errors of the function propagate after the running jobs have finished;
    pending jobs are cancelled.
    """
    if n_processes is None or n_processes == 1:
        n_threads = torch.get_num_threads()
        torch.set_num_threads(n_processes or n_threads)
        try:
            for job in jobs:
                yield job, function(job)
        finally:
            torch.set_num_threads(n_threads)
        return
    with ProcessPoolExecutor(n_processes, get_context("spawn"), _initialise_worker) as pool:
        futures = {pool.submit(function, job): job for job in jobs}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()


def get_default_process_count(device: str) -> int:
    """Return the number of usable CPU cores, or 1 if the device is a GPU."""
    return count_cpu_cores() if device == "cpu" else 1


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
