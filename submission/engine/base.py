"""Define the engine interface and the local engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

import torch

P = TypeVar("P")  # input
R = TypeVar("R")  # result
CPU = torch.device("cpu")


class Engine(Protocol):
    """Applies a function to inputs.

    Results are bit-identical for every engine and worker count, because the work is partitioned beforehand.
    """

    about: str  # for logs and metadata
    shared: bool  # whether workers read and write the cache directory; otherwise the driver transfers inputs and results

    @property
    def has_gpu(self) -> bool:
        """Whether a GPU is available."""

    def workers(self, device: torch.device) -> int:
        """Return the current number of workers."""

    def map(self, function: Callable[[P], R], parts: Iterable[tuple[int, P]], device: torch.device) -> Iterator[tuple[int, R]]:
        """Apply a function to numbered inputs; yield (index, result) in any order. Exceptions of the function propagate.

        Args:
            function: Pickled if another process runs it; a checkpoint in it is pickled as its path and loaded by the worker.
            parts: Numbered inputs, consumed lazily to bound memory.
            device: Device that one task occupies: a GPU, or a CPU core.
        """


class Here(Engine):
    """Runs tasks sequentially in this process."""

    about, shared = "local", False

    @property
    def has_gpu(self) -> bool:
        return torch.cuda.is_available()

    def workers(self, device: torch.device) -> int:
        return 1

    def map(self, function: Callable[[P], R], parts: Iterable[tuple[int, P]], device: torch.device) -> Iterator[tuple[int, R]]:
        for index, item in parts:
            yield index, function(item)


HERE = Here()


def computed(engine: Engine, function: Callable[[P], R], part: P, device: torch.device) -> R:
    """Run a function on one input."""
    [(_, result)] = engine.map(function, [(0, part)], device)
    return result
