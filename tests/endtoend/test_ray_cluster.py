"""Runs on a Ray cluster of two nodes equal local runs, also after kills and damage."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest
from ray.cluster_utils import Cluster

from submission.engine import ray_engine as module
from submission.engine.base import CPU, LOCAL_ENGINE, Engine
from submission.engine.factory import open_engine
from submission.engine.shards import Shard, compute_shards
from submission.models.ranker import Ranker
from submission.signals import SIGNAL_EXIT_CODES
from submission.storage.artifact_store import ArtifactStore
from submission.systems import neural
from submission.systems.catalogue import SYSTEMS
from tests.conftest import ROOT, read_files
from tests.endtoend.conftest import RankAll

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # what Ray leaves open
NODE = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    """Start a cluster of two nodes with one CPU each."""
    with TemporaryDirectory(prefix="ray-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_TMPDIR", folder)
        cluster = Cluster(initialize_head=True, head_node_args=NODE)
        cluster.add_node(**NODE)
        yield cluster
        cluster.shutdown()


@pytest.fixture
def engine(nodes: Cluster) -> Iterator[Engine]:
    with open_engine(f"ray://{nodes.address}") as connected:
        yield connected


def test_ray_runs_equal_local_runs(nodes: Cluster, rank_all: RankAll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranker, "shard_size", 100)
    assert rank_all("here") == 0
    assert rank_all("there", "--engine", "ray", "--ray-address", nodes.address) == 0
    assert read_files(tmp_path / "there") == read_files(tmp_path / "here")
    assert len(read_files(tmp_path / "there")) == len(SYSTEMS) + 2
    assert "2 nodes, 2 CPU cores, 0 GPUs" in (tmp_path / "there" / "ir-metadata.yml").read_text()
    monkeypatch.setattr(ArtifactStore, "write", refusing_parts(ArtifactStore.write))
    shared = ("--engine", "ray", "--ray-address", nodes.address, "--cache-dir", str(tmp_path / "work"), "--shared-cache")
    assert rank_all("shared", *shared) == 0
    assert read_files(tmp_path / "shared") == read_files(tmp_path / "here")


def refusing_parts(write: Callable[..., None]) -> Callable[..., None]:
    """Fail if the driver stores a shard: with a shared cache, workers must write them."""

    def refuse(store: ArtifactStore, name: str, *args: Any) -> None:
        assert not re.match(r"(part-)?[0-9]+\.", name), name
        write(store, name, *args)

    return refuse


def waits(folder: Path, part: int) -> bytes:
    """Compute a slow shard and leave a trace file with the process id."""
    (folder / f"{part}-{os.getpid()}").touch()
    time.sleep(0.4)
    return b"%d" % part * 1000


def numbered(n: int) -> list[Shard[int]]:
    return [Shard(f"{index:02}.bin", 1, partial(int, index)) for index in range(n)]


def test_ray_survives_lost_workers_and_nodes(
    nodes: Cluster, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces, parts, written = tmp_path / "traces", numbered(16), []
    traces.mkdir()
    compute_shards(
        partial(waits, traces), parts[:2], ArtifactStore(tmp_path / "kept", {}), LOCAL_ENGINE, CPU, "begun here", "parts"
    )
    write, third = ArtifactStore.write, nodes.add_node(**NODE)

    def record(store: ArtifactStore, name: str, *args: Any) -> None:
        written.append(name)
        if len(written) == 2:
            os.kill(at_work(traces), signal.SIGKILL)
        if len(written) == 5:
            nodes.remove_node(third, allow_graceful=False)
        write(store, name, *args)

    monkeypatch.setattr(ArtifactStore, "write", record)
    content = compute_shards(
        partial(waits, traces), parts, ArtifactStore(tmp_path / "kept", {}), engine, CPU, "killed", "parts"
    )
    assert sorted(written) == [part.file_name for part in parts[2:]]  # each once, and none that was begun here
    assert [content(index) for index in range(16)] == [b"%d" % index * 1000 for index in range(16)]
    assert len(list(traces.iterdir())) > 16  # lost shards were recomputed


def at_work(traces: Path) -> int:
    """Wait for a worker that has just started a shard."""
    while True:
        for trace in traces.iterdir():
            pid = int(trace.name.partition("-")[2])
            if time.time() - trace.stat().st_mtime < 0.1 and pid != os.getpid():
                return pid
        time.sleep(0.01)


def test_ray_errors_are_reported(
    nodes: Cluster, rank_all: RankAll, checkpoints_copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    assert rank_all("out", "--engine", "ray", "--ray-address", "127.0.0.1:1") == 2
    assert "--engine ray: no cluster at 127.0.0.1:1" in capsys.readouterr().err
    flags, score = ["--system", "knrm", "--engine", "ray", "--ray-address", nodes.address], neural.score_documents
    with monkeypatch.context() as patch:
        patch.setattr(module, "program_fingerprint", lambda: "of another version")
        assert rank_all("out", *flags) == 2
    assert f"{ROOT}: code version differs from the driver's" in capsys.readouterr().err

    def damaged(*arguments: Any) -> Any:
        (checkpoints_copy / "knrm" / "model.safetensors").write_bytes(b"damaged")  # this process has opened it
        return score(*arguments)

    monkeypatch.setattr(neural, "score_documents", damaged)
    assert rank_all("out", *flags) == 4
    stderr = capsys.readouterr().err
    assert f"{checkpoints_copy / 'knrm' / 'model.safetensors'}: damaged (SHA-256 is not" in stderr
    assert "node 1" in stderr


# A process with no network but itself.
OFFLINE = """import fcntl, os, socket, struct, sys
with socket.socket() as one:
    fcntl.ioctl(one, 0x8914, struct.pack("16sh14x", b"lo", 1))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root on Linux to take the network away")
def test_local_ray_needs_no_network_and_cleans_up(
    rank_all: RankAll, corpus_with_topics: Path, checkpoints_copy: Path, tmp_path: Path
) -> None:
    flags = ["--system", "knrm", "--system", "gru", "--device", "cpu"]
    assert rank_all("here", *flags[:4]) == 0
    with TemporaryDirectory(prefix="t-") as temp_dir:  # a short path: sockets lie in it
        home, temporary = Path(temp_dir) / "home", Path(temp_dir) / "tmp"
        home.mkdir()
        temporary.mkdir()
        environment = os.environ | {"HOME": str(home), "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"}
        paths = ["-i", str(corpus_with_topics), "-o", str(tmp_path / "out"), "--checkpoints", str(checkpoints_copy)]
        program = ["unshare", "--net", sys.executable, "-c", OFFLINE, "-m", "submission"]
        command = [*program, "rank", "--engine", "ray", *paths, *flags]
        with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as stopped:
            wait_for(lambda: bool(processes_of(temp_dir)))
            stopped.send_signal(signal.SIGTERM)
            log = stopped.communicate()[1]
        assert stopped.returncode == SIGNAL_EXIT_CODES[signal.SIGTERM], log
        wait_for(lambda: not processes_of(temp_dir))
        assert [*home.iterdir(), *temporary.iterdir()] == []
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert processes_of(temp_dir) == []
        assert [*home.iterdir(), *temporary.iterdir()] == []
    assert read_files(tmp_path / "out") == read_files(tmp_path / "here")


def processes_of(directory: str) -> list[psutil.Process]:
    """List Ray's processes with a directory in their command line."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(directory in word for word in process.info["cmdline"] or [])
    ]


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)
