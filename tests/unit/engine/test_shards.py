"""Tests of shards and engines."""

import pickle
import sys

import pytest

from aragorn.__main__ import main
from aragorn.cache import Parts
from aragorn.engine import CPU, LOCAL_ENGINE, Shard, choose_device, compute_shards
from aragorn.engine.ray_engine import find_gpu_index
from aragorn.errors import CheckpointError, UsageError
from aragorn.inference.checkpoint import load_checkpoint
from tests.conftest import write_tiny_ranker


def compute_contents(directory, function):
    """Compute four shards with `function`, whose input is the shard's index."""
    shards = [Shard(f"{index}.bin", 1, lambda index=index: index) for index in range(4)]
    content = compute_shards(
        function, shards, Parts(directory), LOCAL_ENGINE, CPU, "numbers", "units"
    )
    return [content(index) for index in range(4)]


def test_only_missing_shards_are_computed(tmp_path):
    computed = []

    def interrupt_third_shard(part):
        computed.append(part)
        if computed == [0, 1, 2]:
            raise KeyboardInterrupt
        return b"%d" % part

    with pytest.raises(KeyboardInterrupt):
        compute_contents(tmp_path, interrupt_third_shard)
    assert sorted(file.name for file in tmp_path.glob("*.bin")) == ["0.bin", "1.bin"]
    for _ in range(2):
        assert compute_contents(tmp_path, interrupt_third_shard) == [b"0", b"1", b"2", b"3"]
    assert computed == [0, 1, 2, 2, 3]


def test_unpickling_a_replaced_checkpoint_fails(checkpoints):
    pickled = pickle.dumps(load_checkpoint(checkpoints / "knrm"))
    write_tiny_ranker(checkpoints, "knrm", seed=9)
    message = r"knrm: checkpoint .* differs .*; copy the main process's checkpoint"
    with pytest.raises(CheckpointError, match=message):
        pickle.loads(pickled)


@pytest.mark.parametrize("address", ["", "head", "ray://head:1", "head:port", ":1"])
def test_rank_rejects_invalid_ray_addresses(address, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["rank", "--engine", "ray", "--ray-address", address])
    assert "expected HOST:PORT" in capsys.readouterr().err


def test_missing_ray_installation_fails(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "aragorn.engine.ray_engine")
    assert main(["rank", "-o", str(tmp_path / "out"), "--engine", "ray"]) == 2
    assert "Ray is not installed; run `submission/install.sh ray`" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_ray_that_does_not_start_is_reported(tmp_path, monkeypatch, capsys):
    def fail(**options):
        raise Exception("The current node timed out during startup.")  # as Ray does

    monkeypatch.setattr("ray.init", fail)
    assert main(["rank", "-o", str(tmp_path / "out"), "--engine", "ray"]) == 2
    message = "cannot start Ray (The current node timed out during startup.); omit --engine ray"
    assert message in capsys.readouterr().err


def test_automatic_device_is_cuda_if_the_engine_has_a_gpu(monkeypatch):
    monkeypatch.setattr(type(LOCAL_ENGINE), "has_gpu", True)
    expected = ["cuda", "cuda", "cpu"]
    assert [choose_device(device, LOCAL_ENGINE) for device in ("auto", "cuda", "cpu")] == expected
    monkeypatch.setattr(type(LOCAL_ENGINE), "has_gpu", False)
    assert choose_device("auto", LOCAL_ENGINE) == "cpu"
    with pytest.raises(UsageError, match="no CUDA device"):
        choose_device("cuda", LOCAL_ENGINE)


@pytest.mark.parametrize(
    ("gpu", "visible", "index"),
    [(3, None, 3), (3, "", 3), ("3", "0,1,3", 2), ("GPU-b", "GPU-a,GPU-b", 1), (0, "0", 0)],
)
def test_gpu_index_among_visible_devices(gpu, visible, index):
    assert find_gpu_index(gpu, visible) == index
