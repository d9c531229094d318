"""Tests of shards: resumption, shared cache directories, progress, and pickled checkpoints."""

from __future__ import annotations

import logging
import operator
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from ray import cloudpickle

from submission.engine.base import CPU, LOCAL_ENGINE, Engine, LocalEngine
from submission.engine.shards import Shard, compute_shards
from submission.errors import CheckpointError
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.storage.artifact_store import ArtifactStore
from tests.conftest import write_tiny_ranker


class ReversedEngine(LocalEngine):
    """A local engine that computes shards in reverse order."""

    def map(self, function, parts, device):  # type: ignore[no-untyped-def]
        return ((index, function(part)) for index, part in list(parts)[::-1])


def make_shards(n: int) -> list[Shard[int]]:
    """Create `n` shards; shard i loads the input i and counts as i + 1 units."""
    return [Shard(f"{index}.bin", index + 1, lambda index=index: index) for index in range(n)]  # type: ignore[misc]


def compute_contents(
    directory: Path, function: Callable[[int], bytes], engine: Engine = LOCAL_ENGINE, n: int = 4
) -> list[bytes]:
    """Compute `n` shards with `function` and return their contents in the order of the shards."""
    content = compute_shards(function, make_shards(n), ArtifactStore(directory, {}), engine, CPU, "numbers", "units")
    return [content(index) for index in range(n)]


def test_only_missing_shards_are_computed(tmp_path: Path) -> None:
    computed: list[int] = []

    def interrupt_third_shard(part: int) -> bytes:
        computed.append(part)
        if computed == [0, 1, 2]:
            raise KeyboardInterrupt
        return b"%d" % part

    with pytest.raises(KeyboardInterrupt):
        compute_contents(tmp_path, interrupt_third_shard)
    assert sorted(file.name for file in tmp_path.glob("*.bin")) == ["0.bin", "1.bin"]
    contents = [b"0", b"1", b"2", b"3"]
    assert compute_contents(tmp_path, interrupt_third_shard, ReversedEngine()) == contents  # another engine resumes
    assert compute_contents(tmp_path, interrupt_third_shard) == contents
    assert computed == [0, 1, 2, 3, 2]


class RemoteEngine(LocalEngine):
    """A simulated engine whose workers run on another machine and share the disk of the cache directory."""

    shares_cache = True

    def map(self, function, parts, device):  # type: ignore[no-untyped-def]
        for index, part in parts:
            remote = cloudpickle.loads(cloudpickle.dumps((function, part)))
            sent = cloudpickle.dumps(remote[0](remote[1]))
            assert len(sent) < 100  # a hash instead of the content
            yield index, pickle.loads(sent)


def test_workers_use_a_shared_cache_directory(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"x" * 1000)

    def make_shard(index: int) -> Shard[bytes]:
        return Shard(f"{index}.bin", 1, text.read_bytes, can_load_remotely=index > 0)

    shards, function = [make_shard(index) for index in range(3)], operator.methodcaller("upper")
    content = compute_shards(function, shards, ArtifactStore(tmp_path / "kept", {}), RemoteEngine(), CPU, "texts", "texts")
    text.unlink()  # all results are cached
    cached = compute_shards(function, shards, ArtifactStore(tmp_path / "kept", {}), LOCAL_ENGINE, CPU, "texts", "texts")
    assert [read(index) for read in (content, cached) for index in range(3)] == [b"X" * 1000] * 6


def test_progress_counts_computed_shards(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for engine, n in ((LOCAL_ENGINE, 2), (ReversedEngine(), 4)):
        compute_contents(tmp_path, lambda index: b"%d" % index, engine, n)
    assert [record.getMessage().partition(" in ")[0] for record in caplog.records] == ["numbers: 3 units", "numbers: 7 units"]


def test_unpickling_a_replaced_checkpoint_fails(checkpoints: Path) -> None:
    pickled = pickle.dumps(load_checkpoint(checkpoints / "knrm"))
    write_tiny_ranker(checkpoints, "knrm", seed=9)
    with pytest.raises(CheckpointError, match=r"knrm: checkpoint .* differs .*; copy the main process's checkpoint"):
        pickle.loads(pickled)
