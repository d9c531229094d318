"""Tests of batch sizes, thread counts and the precision of encoders."""

import os
import sys
import threading
from contextlib import nullcontext
from importlib import import_module
from unittest.mock import patch

import numpy as np
import pytest
import torch

from aragorn.engine import choose_precision, count_threads
from aragorn.errors import UsageError
from aragorn.inference.checkpoint import load_checkpoint
from aragorn.inference.device import batch_by_tokens, compute_or_split, limit_threads
from aragorn.models.network import pad
from aragorn.paths import CHECKPOINT_DIR
from aragorn.threads import count_cpu_cores, limit_library_threads
from tests.conftest import needs_bfloat16

CPU = "cpu"
GPU = "cuda"


@pytest.mark.parametrize(
    "module", ["aragorn.inference.pair_scoring", "aragorn_training.tasks.pairs"]
)
def test_networks_are_not_computed_in_tf32(module):
    backends = (torch.backends.cudnn, torch.backends.cuda.matmul)
    for backend in backends:
        backend.allow_tf32 = True
    with patch.dict(sys.modules):
        for name in [name for name in sys.modules if name.startswith("aragorn")]:
            del sys.modules[name]
        import_module(module)
    assert [backend.allow_tf32 for backend in backends] == [False, False]


@pytest.mark.parametrize("limit", [3, 0])
def test_oversized_batches_are_halved(limit, caplog):
    sizes = []

    def compute(rows):
        sizes.append(len(rows))
        if len(rows) > limit:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return torch.from_numpy(rows * 10)

    with pytest.raises(torch.OutOfMemoryError) if limit == 0 else nullcontext():
        expected = [0, 10, 20, 30, 40, 50, 60]
        assert compute_or_split(compute, np.arange(7), torch.cat).tolist() == expected
    assert sizes == ([7, 4, 2, 2, 3] if limit else [7, 4, 2, 1])
    assert "out of memory for a batch of 7" in caplog.text


def test_batches_are_at_most_the_token_limit():
    expected = [[3], [4, 5], [1, 2], [6, 0]]
    assert [rows.tolist() for rows in batch_by_tokens([0, 5, 3, 900, 7, 7, 2], 14)] == expected


def test_threads_do_not_exceed_cpu_cores(monkeypatch):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        monkeypatch.setattr("aragorn.engine.count_cpu_cores", lambda: 3)
        assert limit_threads() == torch.get_num_threads() == 3
        monkeypatch.setattr("aragorn.engine.count_cpu_cores", lambda: 8)
        assert limit_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("setting", "expected"), [("2", 2), ("16", 8), ("", 8), ("4,2", 8)])
def test_threads_without_torch_follow_the_environment(setting, expected, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setenv("OMP_NUM_THREADS", setting)
    monkeypatch.setattr("aragorn.engine.count_cpu_cores", lambda: 8)
    assert count_threads() == expected


@pytest.mark.parametrize(("n_allowed", "is_limited"), [(0, True), (9, True), (10, False)])
def test_libraries_are_limited_if_not_all_threads_can_start(
    n_allowed, is_limited, monkeypatch, capsys
):
    n_before = threading.active_count()
    start = threading.Thread.start

    def start_if_allowed(thread):
        if threading.active_count() - n_before >= n_allowed:
            raise RuntimeError("can't start new thread")
        start(thread)

    environment = {"OMP_NUM_THREADS": "8"}
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    monkeypatch.setattr(threading.Thread, "start", start_if_allowed)
    limit_library_threads()
    assert (environment.get("OPENBLAS_NUM_THREADS") == "1") == is_limited
    assert (environment["OMP_NUM_THREADS"] == "1") == is_limited
    assert ("computing in one thread" in capsys.readouterr().err) == is_limited
    assert threading.active_count() == n_before


NONE = "max 100000"
V1 = "cpu.cfs_quota_us"


@pytest.mark.parametrize(("memberships", "quotas", "expected"), [
    (["0::/a/b"], {"cpu.max": NONE, "a/cpu.max": "100000 100000", "a/b/cpu.max": NONE}, 1),
    (["0::/a/b"], {"a/cpu.max": "300000 100000", "a/b/cpu.max": "150000 100000"}, 2),
    (["0::/a (deleted)"], {"cpu.max": "50000 100000"}, 1), (["0::/"], {"cpu.max": NONE}, 8),
    (["3:cpu,cpuacct:/a/b"], {f"cpu/a/{V1}": "250000", f"cpu/a/b/{V1}": "-1"}, 3),
    (["5:memory:/m", "1:cpu:/"], {"m/cpu.max": "1 1", f"cpu/{V1}": "-1"}, 8),
    (["1:cpuset:/a", "0::/../b"], {f"cpu/a/{V1}": "100000"}, 8), ([], {}, 8),
])  # fmt: skip
def test_tightest_quota_of_nested_cgroups_limits_cores(
    memberships, quotas, expected, tmp_path, monkeypatch
):
    for file, quota in quotas.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(f"{quota}\n")
        (tmp_path / file).with_name("cpu.cfs_period_us").write_text("100000\n")
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(8))
    monkeypatch.setattr("aragorn.threads.CGROUP_ROOT", tmp_path)
    monkeypatch.setattr("aragorn.threads.CGROUPS_FILE", tmp_path / "memberships")
    assert count_cpu_cores() == 8  # without the file
    (tmp_path / "memberships").write_text("\n".join(memberships))
    assert count_cpu_cores() == expected


def test_bfloat16_needs_openvino_and_a_processor_with_its_instructions(monkeypatch):
    monkeypatch.setattr("aragorn.engine.find_spec", lambda name: name == "openvino" or None)
    for feature in ("avx512_bf16", "amx_bf16"):
        monkeypatch.setattr(
            torch.cpu, "get_capabilities", lambda feature=feature: {"avx2": True, feature: True}
        )
        assert choose_precision("bfloat16", CPU) == "bfloat16"
    assert choose_precision("float32", CPU) == choose_precision("float32", GPU) == "float32"
    with pytest.raises(UsageError, match="a GPU always uses float16"):
        choose_precision("bfloat16", GPU)
    monkeypatch.setattr("aragorn.engine.find_spec", lambda _: None)
    message = r"OpenVINO is not installed; run `submission/install\.sh openvino`"
    with pytest.raises(UsageError, match=message):
        choose_precision("bfloat16", CPU)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "amx_bf16": False})
    with pytest.raises(UsageError, match="this CPU has no bfloat16 instructions"):
        choose_precision("bfloat16", CPU)


@pytest.mark.parametrize(
    "precision",
    [torch.float16, pytest.param(torch.bfloat16, marks=[needs_bfloat16, pytest.mark.slow])],
)
@torch.inference_mode()
def test_half_precision_is_close_for_all_lengths(precision):
    encoder = load_checkpoint(CHECKPOINT_DIR / "sbert").network.encoder.eval()
    for longest in (5, 65):
        ids, mask = pad([list(range(1000, 1000 + length)) for length in (longest, longest, 3)])
        encoder.set_precision(None)
        expected, output_mask = encoder(ids, mask)
        encoder.set_precision(precision)
        actual, half_precision_mask = encoder(ids, mask)
        single, _ = encoder(*pad([list(range(1000, 1000 + longest))]))
        assert (actual.dtype, actual.shape) == (torch.float32, expected.shape)
        torch.testing.assert_close(half_precision_mask, output_mask)
        assert 0 < (actual - expected)[output_mask].abs().max() < 0.1  # of values up to 3
        torch.testing.assert_close(actual[0], single[0], rtol=0, atol=0.05)
    assert precision == torch.float16 or "openvino_telemetry.main" not in sys.modules
