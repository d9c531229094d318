"""Work in shards, each cached in a file, so that an interrupted execution can resume."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic

import torch

from submission.engine.base import Engine, Item, run_one
from submission.progress import track_weighted
from submission.storage.artifact_store import ArtifactStore, write_artifact


@dataclass(frozen=True)
class Shard(Generic[Item]):
    """A shard of the work."""

    file_name: str  # its cache file
    unit_count: int  # units of work, for progress
    load_input: Callable[[], Item]  # called when the shard is dispatched
    can_load_remotely: bool = False  # whether any process with the cache directory can load the input


def compute_shards(
    function: Callable[[Item], bytes],
    shards: Sequence[Shard[Item]],
    store: ArtifactStore,
    engine: Engine,
    device: torch.device,
    label: str,
    unit: str,
) -> Callable[[int], bytes]:
    """Compute all missing shards; return a function that reads a shard by index.

    Args:
        function: Returns the content of a shard's file; its exceptions propagate.
        shards: All shards; the partition must not depend on the engine.
        store: Artifact store of exactly this work.
        engine: Engine that computes the shards.
        device: Device that a shard occupies.
        label: Name of the work in logs.
        unit: Counted unit, plural.

    Raises:
        OutputError: If a file cannot be written.
    """
    missing = [index for index, shard in enumerate(shards) if store.get_valid_key(shard.file_name) is None]
    if missing:
        pending = {index: shards[index] for index in missing}
        completed = (_compute_remotely if engine.shares_cache else _compute_and_store)(function, pending, store, engine, device)
        progress_items = ((index, pending[index].unit_count) for index in completed)
        for _ in track_weighted(progress_items, sum(shard.unit_count for shard in pending.values()), label, unit):
            pass

    def read_shard(index: int) -> bytes:
        shard = shards[index]  # recomputed if its file is damaged
        return store.load_or_build(shard.file_name, lambda: run_one(engine, function, shard.load_input(), device))

    return read_shard


def _compute_and_store(
    function: Callable[[Item], bytes],
    shards: Mapping[int, Shard[Item]],
    store: ArtifactStore,
    engine: Engine,
    device: torch.device,
) -> Iterator[int]:
    """Load inputs here, store the results, and yield completed indices."""
    for index, content in engine.map(function, ((index, shard.load_input()) for index, shard in shards.items()), device):
        store.write(shards[index].file_name, content)
        yield index


def _compute_remotely(
    function: Callable[[Item], bytes],
    shards: Mapping[int, Shard[Item]],
    store: ArtifactStore,
    engine: Engine,
    device: torch.device,
) -> Iterator[int]:
    """Let workers load inputs and write results; yield completed indices. Only file names and hashes are transferred."""
    write = ComputeAndWrite(function, store.directory.absolute())
    inputs = ((index, (shard.file_name, _remote_loader(shard))) for index, shard in shards.items())
    for index, xxh3 in engine.map(write, inputs, device):
        store.register(shards[index].file_name, xxh3)
        yield index


@dataclass(frozen=True)
class ComputeAndWrite(Generic[Item]):
    """A task that computes a shard and writes its file on the worker."""

    function: Callable[[Item], bytes]
    cache_dir: Path

    def __call__(self, task: tuple[str, Callable[[], Item]]) -> str:
        """Compute and write a shard; return the hash of the file."""
        name, load_input = task
        return write_artifact(self.cache_dir / name, self.function(load_input()))


def _remote_loader(shard: Shard[Item]) -> Callable[[], Item]:
    """Return a loader for another process: remote if possible, else with the input attached."""
    return shard.load_input if shard.can_load_remotely else partial(_identity, shard.load_input())


def _identity(value: Item) -> Item:
    return value
