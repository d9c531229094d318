"""Compute results in shards, each kept when it is finished, so that an interrupted execution can
resume."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic

from aragorn.cache import Parts
from aragorn.engine.base import Engine, Item, run_task
from aragorn.progress import track_weighted


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
    """Compute all missing shards; return a function that reads a shard by index, or recomputes it
    if its part is damaged.

    Args:
        function: Function that returns the content of a shard's part; its exceptions propagate.
        shards: All shards; the partition must not depend on the engine.
        parts: Finished shards; others are computed while no other process does so. None: the
            results stay in memory.
        engine: Engine that computes the shards.
        device: Kind of device that computes each shard.
        label: Name of the computation in logs.
        unit: Unit of work, in the plural.
    """
    if parts is None:
        inputs = ((index, shard.load_input()) for index, shard in enumerate(shards))
        results = (
            (result, shards[result[0]].unit_count)
            for result in engine.map(function, inputs, device)
        )
        total = sum(shard.unit_count for shard in shards)
        return dict(track_weighted(results, total, label, unit)).__getitem__

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


def _compute_and_write(
    function: Callable[[Item], bytes], parts: Parts, task: tuple[str, Callable[[], Item]]
) -> None:
    name, load_input = task
    parts.write(name, function(load_input()))


def _make_remote_task(shard: Shard[Item]) -> tuple[str, Callable[[], Item]]:
    """Return a shard's name and a picklable function that loads its input, or contains the input if
    it cannot be loaded remotely."""
    can_load = shard.can_load_remotely
    return shard.name, shard.load_input if can_load else partial(_identity, shard.load_input())


def _identity(value: Item) -> Item:
    return value
