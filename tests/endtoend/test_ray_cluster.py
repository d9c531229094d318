"""Tests that runs computed on a Ray cluster of two nodes equal local runs, even if workers or nodes are lost."""

from __future__ import annotations

import os
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

from submission.engine import ray_engine as ray_engine_module
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

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray leaves files and sockets open
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
    """Connect to the cluster."""
    with open_engine(f"ray://{nodes.address}") as ray_engine:
        yield ray_engine


def test_ray_runs_equal_local_runs(nodes: Cluster, rank_all: RankAll, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranker, "shard_size", 100)
    assert rank_all("local") == 0
    assert rank_all("ray", "--engine", "ray", "--ray-address", nodes.address) == 0
    assert read_files(tmp_path / "ray") == read_files(tmp_path / "local")
    assert len(read_files(tmp_path / "ray")) == len(SYSTEMS) + 2
    assert "2 nodes, 2 CPU cores, 0 GPUs" in (tmp_path / "ray" / "ir-metadata.yml").read_text()
    shared = ("--engine", "ray", "--ray-address", nodes.address, "--cache-dir", str(tmp_path / "work"), "--shared-cache")
    assert rank_all("shared", *shared) == 0
    assert read_files(tmp_path / "shared") == read_files(tmp_path / "local")


def compute_slowly(folder: Path, index: int) -> bytes:
    """Compute a shard slowly and create a trace file named after the shard and the process id."""
    (folder / f"{index}-{os.getpid()}").touch()
    time.sleep(0.4)
    return b"%d" % index * 1000


def create_shards(n: int) -> list[Shard[int]]:
    """Create `n` shards, each with its number as its input."""
    return [Shard(f"{index:02}.bin", 1, partial(int, index)) for index in range(n)]


def test_ray_survives_lost_workers_and_nodes(
    nodes: Cluster, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces, shards, written_names = tmp_path / "traces", create_shards(16), []
    traces.mkdir()
    compute_shards(
        partial(compute_slowly, traces), shards[:2], ArtifactStore(tmp_path / "cache", {}), LOCAL_ENGINE, CPU, "local", "parts"
    )
    write, third_node = ArtifactStore.write, nodes.add_node(**NODE)

    def write_and_kill(store: ArtifactStore, name: str, *args: Any) -> None:
        written_names.append(name)
        if len(written_names) == 2:
            os.kill(find_busy_worker(traces), signal.SIGKILL)
        if len(written_names) == 5:
            nodes.remove_node(third_node, allow_graceful=False)
        write(store, name, *args)

    monkeypatch.setattr(ArtifactStore, "write", write_and_kill)
    content = compute_shards(
        partial(compute_slowly, traces), shards, ArtifactStore(tmp_path / "cache", {}), engine, CPU, "killed", "parts"
    )
    assert sorted(written_names) == [shard.file_name for shard in shards[2:]]  # each once, except those computed locally
    assert [content(index) for index in range(16)] == [b"%d" % index * 1000 for index in range(16)]
    assert len(list(traces.iterdir())) > 16  # lost shards were recomputed


def find_busy_worker(traces: Path) -> int:
    """Wait until a worker starts a shard, and return its process id."""
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
    flags, score_documents = ["--system", "knrm", "--engine", "ray", "--ray-address", nodes.address], neural.score_documents
    with monkeypatch.context() as patch:
        patch.setattr(ray_engine_module, "program_fingerprint", lambda: "fingerprint of another version")
        assert rank_all("out", *flags) == 2
    assert f"{ROOT}: code version differs from the driver's" in capsys.readouterr().err

    def damage_and_score(*arguments: Any) -> Any:
        (checkpoints_copy / "knrm" / "model.safetensors").write_bytes(b"damaged")  # the driver has already loaded it
        return score_documents(*arguments)

    monkeypatch.setattr(neural, "score_documents", damage_and_score)
    assert rank_all("out", *flags) == 4
    stderr = capsys.readouterr().err
    assert f"{checkpoints_copy / 'knrm' / 'model.safetensors'}: damaged (SHA-256 is not" in stderr
    assert "node 1" in stderr


# Enables the loopback device in a new network namespace, then runs Python with the remaining arguments.
OFFLINE = """import fcntl, os, socket, struct, sys
with socket.socket() as connection:
    fcntl.ioctl(connection, 0x8914, struct.pack("16sh14x", b"lo", 1))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")
def test_local_ray_needs_no_network_and_cleans_up(
    rank_all: RankAll, corpus_with_topics: Path, checkpoints_copy: Path, tmp_path: Path
) -> None:
    flags = ["--system", "knrm", "--system", "gru", "--device", "cpu"]
    assert rank_all("local", *flags[:4]) == 0
    with TemporaryDirectory(prefix="t-") as temp_dir:  # a short path, since the paths of sockets have a maximum length
        home, temporary_dir = Path(temp_dir) / "home", Path(temp_dir) / "tmp"
        home.mkdir()
        temporary_dir.mkdir()
        environment = os.environ | {"HOME": str(home), "TMPDIR": str(temporary_dir), "OMP_NUM_THREADS": "1"}
        paths = ["-i", str(corpus_with_topics), "-o", str(tmp_path / "out"), "--checkpoints", str(checkpoints_copy)]
        program = ["unshare", "--net", sys.executable, "-c", OFFLINE, "-m", "submission"]
        command = [*program, "rank", "--engine", "ray", *paths, *flags]
        with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as process:
            wait_for(lambda: bool(find_processes(temp_dir)))
            process.send_signal(signal.SIGTERM)
            log = process.communicate()[1]
        assert process.returncode == SIGNAL_EXIT_CODES[signal.SIGTERM], log
        wait_for(lambda: not find_processes(temp_dir))
        assert [*home.iterdir(), *temporary_dir.iterdir()] == []
        completed = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert completed.returncode == 0, completed.stderr
        assert find_processes(temp_dir) == []
        assert [*home.iterdir(), *temporary_dir.iterdir()] == []
    assert read_files(tmp_path / "out") == read_files(tmp_path / "local")


def find_processes(directory: str) -> list[psutil.Process]:
    """Find the processes whose command line contains a directory."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(directory in word for word in process.info["cmdline"] or [])
    ]


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, at most two minutes."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
