"""Compute results in shards, each cached in a file, so that an interrupted execution can resume."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic

import torch

from aragorn.engine.base import Engine, Item, run_task
from aragorn.progress import track_weighted
from aragorn.storage.artifact_store import ArtifactStore, write_artifact


@dataclass(frozen=True)
class Shard(Generic[Item]):
    """Part of a computation: a function that loads its input, and the file that caches its
    result."""

    file_name: str  # name of its cache file
    unit_count: int  # units of work, for the progress display
    load_input: Callable[[], Item]  # called when the shard is dispatched
    # whether any process with access to the cache directory can load the input
    can_load_remotely: bool = False


def compute_shards(
    function: Callable[[Item], bytes],
    shards: Sequence[Shard[Item]],
    store: ArtifactStore,
    engine: Engine,
    device: torch.device,
    label: str,
    unit: str,
) -> Callable[[int], bytes]:
    """Compute all missing shards; return a function that reads a shard by index, or recomputes it
    if its file is damaged.

    Args:
        function: Function that returns the content of a shard's file; its exceptions propagate.
        shards: All shards; the partition must not depend on the engine.
        store: Store of the shards' files; it must contain no other files.
        engine: Engine that computes the shards.
        device: Kind of device that computes each shard.
        label: Name of the computation in logs.
        unit: Unit of work, in the plural.
    """

    def compute_missing() -> Iterator[int]:
        """Compute and store shards; yield completed indices."""
        # workers load inputs and write files; only file names and hashes are transferred
        if engine.shares_cache:
            write = partial(_compute_and_write, function, store.directory.absolute())
            tasks = (
                (index, (shard.file_name, _make_remote_loader(shard)))
                for index, shard in missing_shards.items()
            )
            for index, xxh3 in engine.map(write, tasks, device):
                store.register(shards[index].file_name, xxh3)
                yield index
        else:
            inputs = ((index, shard.load_input()) for index, shard in missing_shards.items())
            for index, content in engine.map(function, inputs, device):
                store.write(shards[index].file_name, content)
                yield index

    missing_shards = _find_missing(shards, store)
    if missing_shards:
        with store.lock() as is_reloaded:
            missing_shards = _find_missing(shards, store) if is_reloaded else missing_shards
            progress_items = ((index, shards[index].unit_count) for index in compute_missing())
            for _ in track_weighted(
                progress_items,
                sum(shard.unit_count for shard in missing_shards.values()),
                label,
                unit,
            ):
                pass

    def read_shard(index: int) -> bytes:
        shard = shards[index]
        return store.load_or_build(
            shard.file_name, lambda: run_task(engine, function, shard.load_input(), device)
        )

    return read_shard


def _find_missing(shards: Sequence[Shard[Item]], store: ArtifactStore) -> dict[int, Shard[Item]]:
    """Return the shards without a valid file, by index."""
    return {
        index: shard
        for index, shard in enumerate(shards)
        if store.get_valid_key(shard.file_name) is None
    }


def _compute_and_write(
    function: Callable[[Item], bytes], cache_dir: Path, task: tuple[str, Callable[[], Item]]
) -> str:
    """Compute a shard and write its file on the worker; return the hash of the file."""
    file_name, load_input = task
    return write_artifact(cache_dir / file_name, function(load_input()))


def _make_remote_loader(shard: Shard[Item]) -> Callable[[], Item]:
    """Return a picklable function that loads a shard's input, or contains the input if it cannot be
    loaded remotely."""
    return shard.load_input if shard.can_load_remotely else partial(_identity, shard.load_input())


def _identity(value: Item) -> Item:
    return value
