"""Define engines, and compute results in shards, which an interrupted execution keeps."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from aragorn.cache import Parts
from aragorn.progress import track_weighted

Item = TypeVar("Item")
Result = TypeVar("Result")
CPU = "cpu"
# one of these exists where the driver of an NVIDIA GPU is loaded
GPU_DRIVER_FILES = (Path("/proc/driver/nvidia"), Path("/dev/nvidiactl"), Path("/dev/dxg"))


class Engine:
    """Engine that applies functions to inputs: here one by one, in subclasses on several workers.

    Callers partition the work independently of the engine, so that results are bit-identical for
    any worker count.
    """

    description = "local"  # name and resources, for logs and metadata
    # whether workers read and write the cache directory; otherwise the driver transfers inputs and
    # results
    shares_cache = False

    @property
    def has_gpu(self) -> bool:
        """Whether torch finds a GPU; without a driver, torch is not asked: it is slow to import."""
        if "torch" not in sys.modules and not any(file.exists() for file in GPU_DRIVER_FILES):
            return False
        import torch

        return torch.cuda.is_available()

    def count_workers(self, device: str) -> int:
        """Return the number of workers, at least 1; each occupies a GPU or a CPU core."""
        return 1

    def map(
        self, function: Callable[[Item], Result], items: Iterable[tuple[int, Item]], device: str
    ) -> Iterator[tuple[int, Result]]:
        """Yield (index, result) of numbered inputs, in any order; exceptions propagate.

        `function` is pickled if another process runs it; `items` are consumed lazily.
        """
        for index, item in items:
            yield index, function(item)


LOCAL_ENGINE = Engine()


def run_task(engine: Engine, function: Callable[[Item], Result], item: Item, device: str) -> Result:
    """Apply a function to a single input on a worker of the engine, and return the result."""
    [(_, result)] = engine.map(function, [(0, item)], device)
    return result


@dataclass(frozen=True)
class Shard(Generic[Item]):
    """Part of a computation: a function that loads its input, and the name of its result."""

    name: str  # of its part
    unit_count: int  # units of work, for the progress display
    load_input: Callable[[], Item]  # called when the shard is dispatched
    # whether any process with access to the cache directory can load the input
    can_load_remotely: bool = False


def compute_shards(
    function: Callable[[Item], bytes],
    shards: Sequence[Shard[Item]],
    parts: Parts | None,
    engine: Engine,
    device: str,
    label: str,
    unit: str,
) -> Callable[[int], bytes]:
    """Compute all missing shards; return a function that reads a shard by index.

    Args:
        function: Returns the content of a shard's part; its exceptions propagate.
        shards: All shards; the partition must not depend on the engine.
        parts: Finished shards, locked while others are computed; None: results stay in memory.
        engine: Computes the shards.
        device: Kind of device of each task.
        label: Name of the computation in logs.
        unit: Unit of work, in the plural.
    """
    if parts is None:
        return _compute_in_memory(function, shards, engine, device, label, unit).__getitem__

    def compute(indices: Sequence[int]) -> Iterator[int]:
        """Compute and keep shards; yield the index of each when it is finished."""
        if engine.shares_cache:  # workers load inputs and write parts; nothing is transferred
            write = partial(_compute_and_write, function, parts)
            tasks = ((index, _make_remote_task(shards[index])) for index in indices)
            for index, _ in engine.map(write, tasks, device):
                yield index
        else:
            inputs = ((index, shards[index].load_input()) for index in indices)
            for index, content in engine.map(function, inputs, device):
                parts.write(shards[index].name, content)
                yield index

    with parts.lock():
        missing_indices = [
            index for index, shard in enumerate(shards) if parts.read(shard.name) is None
        ]
        total = sum(shards[index].unit_count for index in missing_indices)
        sized_indices = ((index, shards[index].unit_count) for index in compute(missing_indices))
        for _ in track_weighted(sized_indices, total, label, unit) if missing_indices else ():
            pass

    def read_shard(index: int) -> bytes:
        shard = shards[index]
        return parts.get_or_build(
            shard.name, lambda: run_task(engine, function, shard.load_input(), device)
        )

    return read_shard


def _compute_in_memory(
    function: Callable[[Item], bytes],
    shards: Sequence[Shard[Item]],
    engine: Engine,
    device: str,
    label: str,
    unit: str,
) -> dict[int, bytes]:
    inputs = ((index, shard.load_input()) for index, shard in enumerate(shards))
    results = (
        (result, shards[result[0]].unit_count) for result in engine.map(function, inputs, device)
    )
    return dict(track_weighted(results, sum(shard.unit_count for shard in shards), label, unit))


def _compute_and_write(
    function: Callable[[Item], bytes], parts: Parts, task: tuple[str, Callable[[], Item]]
) -> None:
    name, load_input = task
    parts.write(name, function(load_input()))


def _make_remote_task(shard: Shard[Item]) -> tuple[str, Callable[[], Item]]:
    """Return a shard's name and a picklable function that loads or contains its input."""
    can_load = shard.can_load_remotely
    return shard.name, shard.load_input if can_load else partial(_identity, shard.load_input())


def _identity(value: Item) -> Item:
    return value
