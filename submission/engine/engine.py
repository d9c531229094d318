"""The interface of engines, and the engine that is always there: this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import chain, islice
from typing import Protocol, TypeVar

import torch

P = TypeVar("P")  # a part
R = TypeVar("R")  # what is computed of it
CPU = torch.device("cpu")


class Engine(Protocol):
    """Applies a function to parts. Results are bit-identical for any engine and worker count, as parts are cut before."""

    about: str  # what it is, for people
    shared: bool  # whether workers read and write the working directory, so that texts and results need not travel

    @property
    def has_gpu(self) -> bool:
        """Whether it can compute on a GPU."""

    def workers(self, device: torch.device) -> int:
        """Return how many parts are computed at a time, at the moment."""

    def map(self, function: Callable[[P], R], parts: Iterable[tuple[int, P]], device: torch.device) -> Iterator[tuple[int, R]]:
        """Compute a function of numbered parts; yield numbers and results in any order.

        Args:
            function: pickled where another process computes it; a checkpoint in it travels as its place and is opened there.
            parts: each is asked for when it can be handed out, so that few of them are in memory.
            device: what a part occupies while it is computed: a GPU or, on the CPU, a processor.

        Raises:
            What the function raises.
        """


class Here(Engine):
    """This process. On the CPU each thread computes a part, and a single part has all threads; on a GPU one after the other."""

    about, shared = "this process", False

    @property
    def has_gpu(self) -> bool:
        return torch.cuda.is_available()

    def workers(self, device: torch.device) -> int:
        """One: by itself a part has all threads, and is as much faster."""
        return 1

    def map(self, function: Callable[[P], R], parts: Iterable[tuple[int, P]], device: torch.device) -> Iterator[tuple[int, R]]:
        waiting = iter(parts)
        first = list(islice(waiting, 2))
        if len(first) < 2 or device.type == "cuda" or torch.get_num_threads() == 1:
            for number, part in chain(first, waiting):
                yield number, function(part)
            return
        # No part waits for another's end, and what Python does for one is done while another is multiplied.
        with one_thread() as threads, ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            running: dict[Future[R], int] = {}
            try:
                for number, part in chain(first, waiting):
                    running[pool.submit(function, part)] = number
                    if len(running) > threads:  # one more than are computed: none is waited for
                        yield from _finished(running)
                while running:
                    yield from _finished(running)
            finally:  # where one has failed, or nobody wants them any more
                pool.shutdown(cancel_futures=True)


def _finished(running: dict[Future[R], int]) -> Iterator[tuple[int, R]]:
    """Wait for a part, and take out those that are finished by then."""
    for done in wait(running, return_when=FIRST_COMPLETED).done:
        yield running.pop(done), done.result()


@contextmanager
def one_thread() -> Iterator[int]:
    """Let torch compute on one thread, so that how many there are changes no bit; gives how many there were."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


HERE = Here()


def computed(engine: Engine, function: Callable[[P], R], part: P, device: torch.device) -> R:
    """Compute a function of a single part where the engine computes."""
    [(_, result)] = engine.map(function, [(0, part)], device)
    return result
