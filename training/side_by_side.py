"""Parts of long measurements side by side: processes of one thread each, which do more than one process of many threads."""

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

from submission.logs import log_to_stderr

P = TypeVar("P")  # a part
R = TypeVar("R")  # what is computed of it


def side_by_side(function: Callable[[P], R], parts: Sequence[P], processes: int) -> Iterator[tuple[P, R]]:
    """Each part with what a function gives of it, as they are finished; begun in their order. Their number changes no result.

    Args:
        function: of a module; with more than one process, function, parts and results are pickled.
        parts: which share nothing.
        processes: so many parts at a time, on one thread each; 1: in this process.

    Raises:
        What the function raises; what has begun is waited for, the rest is not begun.
    """
    if processes == 1:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            for part in parts:
                yield part, function(part)
        finally:
            torch.set_num_threads(threads)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), _begin) as pool:
        running = {pool.submit(function, part): part for part in parts}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        finally:
            for one in running:
                one.cancel()


def at_a_time(device: torch.device) -> int:
    """As many processes as this one may use cores; on a GPU one, which all would share."""
    return cpu_count() if device.type == "cpu" else 1


def _begin() -> None:
    """In each process, first of all: it speaks as its parent does, and ends with it however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is told to all of them; the parent says so and ends
    torch.set_num_threads(1)
    log_to_stderr()
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent:
        parent.join()
    os._exit(1)
