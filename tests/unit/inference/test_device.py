"""Threads, and batches that exceed GPU memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from submission.inference.device import compute_or_split, limit_threads
from submission.inference.pair_scoring import score_documents
from submission.inference.ranker_checkpoint import load_checkpoint
from submission.models.rankers.knrm import KNRM
from submission.storage.artifact_store import ArtifactStore
from tests.conftest import ROOT
from tests.unit.inference.test_pair_scoring import CANDIDATES, CPU, TOKENS

LIMITS = {
    "version 2": {"cpu.max": "100000 100000"},
    "version 1": {"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"},
}


def simulate_gpu(capacity: int) -> tuple[list[int], object]:
    """Return a function that behaves like a GPU with memory for `capacity` rows, after a list of its batch sizes."""
    sizes: list[int] = []

    def compute(rows: np.ndarray) -> Tensor:
        sizes.append(len(rows))
        if len(rows) > capacity:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return torch.from_numpy(rows * 10)

    return sizes, compute


def test_oversized_batch_is_halved(caplog: pytest.LogCaptureFixture) -> None:
    sizes, compute = simulate_gpu(3)
    assert compute_or_split(compute, np.arange(7), torch.cat).tolist() == [0, 10, 20, 30, 40, 50, 60]
    assert sizes == [7, 4, 2, 2, 3]
    assert "out of memory for a batch of 7" in caplog.text


def test_oversized_row_raises() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        compute_or_split(simulate_gpu(0)[1], np.arange(4), torch.cat)


def test_halved_batches_give_the_same_scores(checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = load_checkpoint(checkpoints / "knrm")
    expected = score_documents(CANDIDATES, TOKENS, checkpoint, CPU, ArtifactStore(tmp_path / "full", {}))
    score_features, sizes = KNRM.score_features, []

    def small(self: KNRM, features: Tensor) -> Tensor:
        sizes.append(len(features))
        if sizes[-1] > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return score_features(self, features)

    monkeypatch.setattr(KNRM, "score_features", small)
    halves = score_documents(CANDIDATES, TOKENS, checkpoint, CPU, ArtifactStore(tmp_path / "halves", {}))
    assert sizes == [2, 1, 1, 4, 2, 1, 1, 2, 1, 1]  # batches of two and of four documents
    np.testing.assert_allclose(halves, expected, rtol=0, atol=1e-5)


def test_threads_do_not_exceed_cpu_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        monkeypatch.setattr("submission.inference.device.cpu_count", lambda: 3)
        assert limit_threads() == torch.get_num_threads() == 3
        monkeypatch.setattr("submission.inference.device.cpu_count", lambda: 8)
        assert limit_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root on Linux to mount a cgroup")
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
@pytest.mark.parametrize("version", LIMITS)
def test_threads_follow_the_limit_of_the_cgroup(version: str, tmp_path: Path) -> None:
    for name, value in LIMITS[version].items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(value + "\n")
    script = "from submission.inference.device import limit_threads; print(limit_threads())"
    command = f"mount --bind {tmp_path} /sys/fs/cgroup && exec {sys.executable} -c '{script}'"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("unsharing mounts is not permitted")
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}

    def threads(*shell: str) -> int:
        return int(subprocess.run(shell, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout)

    assert threads("unshare", "--mount", "sh", "-c", command) == 1
    assert threads(sys.executable, "-c", script) > 1
