"""Compute work in shards, each cached in a file, so that an interrupted execution can resume."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic

import torch

from submission.engine.base import Engine, P, computed
from submission.progress import progress_of
from submission.storage.artifact_store import Kept, written


@dataclass(frozen=True)
class Part(Generic[P]):
    """A shard of the work."""

    name: str  # its cache file
    size: int  # units of work, for progress
    given: Callable[[], P]  # called when the shard is dispatched
    travels: bool = False  # whether any process with the cache directory can load the input


def kept_parts(
    function: Callable[[P], bytes],
    parts: Sequence[Part[P]],
    kept: Kept,
    engine: Engine,
    device: torch.device,
    what: str,
    unit: str,
) -> Callable[[int], bytes]:
    """Compute all missing shards; return a function that reads a shard by index.

    Args:
        function: Returns the content of a shard's file; its exceptions propagate.
        parts: All shards; the partition must not depend on the engine.
        kept: Artifact store of exactly this work.
        engine: Engine that computes the shards.
        device: Device that a shard occupies.
        what: Name of the work in logs.
        unit: Counted unit, plural.

    Raises:
        OutputError: If a file cannot be written.
    """
    missing = [index for index, shard in enumerate(parts) if kept.key(shard.name) is None]
    if missing:
        pending = {index: parts[index] for index in missing}
        completed = (_written_there if engine.shared else _written_here)(function, pending, kept, engine, device)
        progress_items = ((index, pending[index].size) for index in completed)
        for _ in progress_of(progress_items, sum(part.size for part in pending.values()), what, unit):
            pass

    def read_shard(index: int) -> bytes:
        shard = parts[index]
        return kept.content(shard.name, lambda: computed(engine, function, shard.given(), device))  # recomputes a damaged file

    return read_shard


def _written_here(
    function: Callable[[P], bytes], parts: Mapping[int, Part[P]], kept: Kept, engine: Engine, device: torch.device
) -> Iterator[int]:
    """Load inputs here, store the results, and yield completed indices."""
    for index, content in engine.map(function, ((index, shard.given()) for index, shard in parts.items()), device):
        kept.write(parts[index].name, content)
        yield index


def _written_there(
    function: Callable[[P], bytes], parts: Mapping[int, Part[P]], kept: Kept, engine: Engine, device: torch.device
) -> Iterator[int]:
    """Let workers load inputs and write results; yield completed indices. Only file names and hashes are transferred."""
    write = Written(function, kept.directory.absolute())
    inputs = ((index, (shard.name, _anywhere(shard))) for index, shard in parts.items())
    for index, xxh3 in engine.map(write, inputs, device):
        kept.enter(parts[index].name, xxh3)
        yield index


@dataclass(frozen=True)
class Written(Generic[P]):
    """A task that computes a shard and writes its file on the worker."""

    function: Callable[[P], bytes]
    directory: Path

    def __call__(self, part: tuple[str, Callable[[], P]]) -> str:
        """Compute and write a shard; return the hash of the file.

        Raises:
            OutputError: If the file cannot be written.
        """
        name, load_input = part
        return written(self.directory / name, self.function(load_input()))


def _anywhere(part: Part[P]) -> Callable[[], P]:
    """Return a loader for another process: remote if possible, else with the input attached."""
    return part.given if part.travels else partial(_as_it_is, part.given())


def _as_it_is(value: P) -> P:
    return value
