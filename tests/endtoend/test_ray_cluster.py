"""Tests that runs on a Ray cluster equal local runs, even if workers or nodes are lost."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest
from ray.cluster_utils import Cluster

from aragorn.cache import Parts
from aragorn.engine import CPU, Shard, compute_shards, ray_engine
from aragorn.inference import pair_scoring
from aragorn.models.network import Ranker
from aragorn.paths import PACKAGE_DIR
from aragorn.signals import SIGNAL_EXIT_CODES
from tests.conftest import ROOT, read_files, wait_until
from tests.contract.conftest import KINDS
from tests.endtoend.slow_shards import compute_slowly

# Ray leaves files and sockets open
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
NODE = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}


@pytest.fixture(scope="module")
def nodes():
    """Start a cluster of two nodes with one CPU each."""
    with TemporaryDirectory(prefix="ray-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_TMPDIR", folder)
        cluster = Cluster(initialize_head=True, head_node_args=NODE)
        cluster.add_node(**NODE)
        yield cluster
        cluster.shutdown()


def test_ray_runs_equal_local_runs(nodes, rank_all, tmp_path, monkeypatch):
    monkeypatch.setattr(Ranker, "shard_size", 100)
    systems = [flag for name in KINDS for flag in ("--system", name)]
    ray = (*systems, "--engine", "ray", "--ray-address", nodes.address)
    assert rank_all("local", *systems) == 0
    assert rank_all("ray", *ray) == 0
    assert rank_all("shared", *ray, "--cache-dir", str(tmp_path / "work"), "--shared-cache") == 0
    local, remote, shared = (read_files(tmp_path / name) for name in ("local", "ray", "shared"))
    assert local == remote == shared
    assert len(local) == len(KINDS) + 2
    assert "2 nodes, 2 CPU cores, 0 GPUs" in (tmp_path / "ray" / "ir-metadata.yml").read_text()


def find_busy_worker(traces):
    """Wait until a worker starts a shard, and return the worker's process id."""
    while True:
        for trace in traces.iterdir():
            if time.time() - trace.stat().st_mtime < 0.1:
                return int(trace.name.partition("-")[2])
        time.sleep(0.01)


def test_ray_survives_lost_workers_and_nodes(nodes, tmp_path, monkeypatch):
    traces = tmp_path / "traces"
    written_names = list[str]()
    write = Parts.write
    traces.mkdir()
    shards = [Shard(f"{index:02}.bin", 1, partial(int, index)) for index in range(14)]
    third_node = nodes.add_node(**NODE)
    store = Parts(tmp_path / "cache")

    def write_and_kill(parts, name, *args):
        written_names.append(name)
        if len(written_names) == 2:
            os.kill(find_busy_worker(traces), signal.SIGKILL)
        if len(written_names) == 5:
            nodes.remove_node(third_node, allow_graceful=False)
        write(parts, name, *args)

    monkeypatch.setattr(Parts, "write", write_and_kill)
    with ray_engine.connect(nodes.address) as engine:
        content = compute_shards(
            partial(compute_slowly, traces), shards, store, engine, CPU, "killed", "parts"
        )
    assert sorted(written_names) == [shard.name for shard in shards]  # each once
    assert [content(index) for index in range(14)] == [b"%d" % index * 1000 for index in range(14)]
    assert len(list(traces.iterdir())) > 14  # lost shards were recomputed


def test_ray_errors_are_reported(nodes, rank_all, checkpoints_copy, monkeypatch, capsys):
    assert rank_all("out", "--engine", "ray", "--ray-address", "127.0.0.1:1") == 2
    assert "--engine ray: no cluster at 127.0.0.1:1" in capsys.readouterr().err
    flags = ["--system", "knrm", "--engine", "ray", "--ray-address", nodes.address]
    score_documents = pair_scoring.score_documents
    with monkeypatch.context() as patch:
        patch.setattr(ray_engine, "hash_package", lambda: "fingerprint of another version")
        assert rank_all("out", *flags) == 2
    assert f"{PACKAGE_DIR}: code version differs from the driver's" in capsys.readouterr().err
    weights = checkpoints_copy / "knrm" / "model.safetensors"

    def damage_and_score(*arguments):
        weights.write_bytes(b"damaged")  # the driver has already loaded it
        return score_documents(*arguments)

    monkeypatch.setattr(pair_scoring, "score_documents", damage_and_score)
    assert rank_all("out", *flags) == 4
    stderr = capsys.readouterr().err
    assert f"{weights}: damaged (SHA-256 is not" in stderr
    assert "node 1" in stderr


def is_used(directory):
    """Return whether the command line of any running process contains a directory."""
    processes = psutil.process_iter(["cmdline"])
    return any(directory in word for process in processes for word in process.info["cmdline"] or [])


def test_stopped_local_ray_leaves_no_files_and_processes(
    corpus_with_topics, all_checkpoints_dir, tmp_path
):
    paths = ["-i", corpus_with_topics, "-o", tmp_path / "out", "--checkpoints", all_checkpoints_dir]
    rank = ["rank", "--engine", "ray", *map(str, paths), "--system", "knrm", "--device", "cpu"]
    # a short path, since the paths of sockets have a maximum length
    with TemporaryDirectory(prefix="t-") as folder:
        environment = os.environ | {"HOME": folder, "TMPDIR": folder, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "aragorn", *rank]
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
        )
        while not is_used(folder) and process.poll() is None:
            time.sleep(0.05)
        process.terminate()
        log = process.communicate(timeout=120)[1]
        assert process.returncode == SIGNAL_EXIT_CODES[signal.SIGTERM], log
        wait_until(lambda: not is_used(folder))
        assert [*Path(folder).iterdir()] == []
