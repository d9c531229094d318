"""Tests of `rank --engine` without a Ray cluster, and of the choice of device and GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from submission.__main__ import main
from submission.engine.base import LOCAL_ENGINE
from submission.engine.ray_engine import find_gpu_index
from submission.errors import UsageError
from submission.inference.device import choose_device
from tests.conftest import Capture, Patch


@pytest.mark.parametrize("address", ["", "head", "ray://head:1", "head:port", ":1"])
def test_rank_rejects_invalid_ray_addresses(address: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["rank", "--engine", "ray", "--ray-address", address])
    assert "expected HOST:PORT" in capsys.readouterr().err


def test_missing_ray_installation_fails(tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "submission.engine.ray_engine")
    assert main(["rank", "-o", str(tmp_path / "out"), "--engine", "ray"]) == 2
    assert "Ray is not installed; run `pip install -r requirements-ray.txt`" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_automatic_device_is_cuda_if_the_engine_has_a_gpu(monkeypatch: Patch) -> None:
    monkeypatch.setattr(type(LOCAL_ENGINE), "has_gpu", True)
    assert [choose_device(device, LOCAL_ENGINE).type for device in ("auto", "cuda", "cpu")] == ["cuda", "cuda", "cpu"]
    monkeypatch.setattr(type(LOCAL_ENGINE), "has_gpu", False)
    assert choose_device("auto", LOCAL_ENGINE).type == "cpu"
    with pytest.raises(UsageError, match="no CUDA device"):
        choose_device("cuda", LOCAL_ENGINE)


@pytest.mark.parametrize(
    ("gpu", "visible", "index"), [(3, None, 3), (3, "", 3), ("3", "0,1,3", 2), ("GPU-b", "GPU-a,GPU-b", 1), (0, "0", 0)]
)
def test_gpu_index_among_visible_devices(gpu: int | str, visible: str | None, index: int) -> None:
    assert find_gpu_index(gpu, visible) == index
