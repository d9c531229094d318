"""Define the interface of engines, and the local engine."""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
CPU = "cpu"
# one of these exists where the driver of an NVIDIA GPU is loaded
GPU_DRIVER_FILES = (Path("/proc/driver/nvidia"), Path("/dev/nvidiactl"), Path("/dev/dxg"))


class Engine(Protocol):
    """Interface of engines, which apply a function to inputs on one or more workers, in this
    process or on a cluster.

    Callers partition the work independently of the engine, so that results are bit-identical for
    any worker count.
    """

    description: str  # name and resources, for logs and metadata
    # whether workers read and write the cache directory; otherwise the driver transfers inputs and
    # results
    shares_cache: bool

    @property
    def has_gpu(self) -> bool: ...

    def count_workers(self, device: str) -> int:
        """Return the current number of workers for this kind of device, at least 1; each occupies a
        GPU or a CPU core."""

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[tuple[int, Item]],
        device: str,
    ) -> Iterator[tuple[int, Result]]:
        """Apply a function to numbered inputs; yield (index, result) in any order. Exceptions of
        the function propagate.

        Args:
            function: Function of one input; pickled if another process runs it, with checkpoints
                replaced by their paths.
            items: Numbered inputs, consumed lazily to bound memory.
            device: Kind of device that each task occupies: a GPU or a CPU core.
        """


class LocalEngine(Engine):
    """An engine that runs one task after another in this process."""

    description = "local"
    shares_cache = False

    @property
    def has_gpu(self) -> bool:
        """Whether torch finds a GPU; torch, which is slow to import, is not asked if there is no
        driver."""
        if "torch" not in sys.modules and not any(file.exists() for file in GPU_DRIVER_FILES):
            return False
        import torch

        return torch.cuda.is_available()

    def count_workers(self, device: str) -> int:
        return 1

    def map(
        self,
        function: Callable[[Item], Result],
        items: Iterable[tuple[int, Item]],
        device: str,
    ) -> Iterator[tuple[int, Result]]:
        for index, item in items:
            yield index, function(item)


LOCAL_ENGINE = LocalEngine()


def run_task(engine: Engine, function: Callable[[Item], Result], item: Item, device: str) -> Result:
    """Apply a function to a single input on a worker of the engine, and return the result."""
    [(_, result)] = engine.map(function, [(0, item)], device)
    return result
