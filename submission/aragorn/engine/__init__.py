"""Define engines, choose device and precision, and compute results in shards, which an interrupted
execution keeps. torch is imported on use, as that is slow."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Generic, TypeVar

from aragorn.cache import Parts
from aragorn.errors import UsageError
from aragorn.paths import get_install_command
from aragorn.progress import track_weighted
from aragorn.threads import count_cpu_cores

Item = TypeVar("Item")
Result = TypeVar("Result")
CPU = "cpu"
FLOAT32 = "float32"  # default precision of encoders on a CPU
# one of these exists where the driver of an NVIDIA GPU is loaded
GPU_DRIVER_FILES = (Path("/proc/driver/nvidia"), Path("/dev/nvidiactl"), Path("/dev/dxg"))


class Engine:
    """Engine that applies functions to inputs: here one by one, in subclasses on several workers.

    Callers partition the work independently of the engine, so that results are bit-identical for
    any worker count.
    """

    description = "local"  # name and resources, for logs and metadata
    # whether workers write to the cache directory; otherwise results are transferred to the driver
    shares_cache = False

    @property
    def has_gpu(self) -> bool:
        """Whether torch finds a GPU; without a driver, torch is not asked: it is slow to import."""
        if "torch" not in sys.modules and not any(file.exists() for file in GPU_DRIVER_FILES):
            return False
        import torch

        return torch.cuda.is_available()

    def map(
        self, function: Callable[[Item], Result], items: Iterable[tuple[int, Item]], device: str
    ) -> Iterator[tuple[int, Result]]:
        """Yield (index, result) of numbered inputs, in any order; exceptions propagate.

        `function` is pickled if another process runs it; `items` are consumed lazily.
        """
        for index, item in items:
            yield index, function(item)


LOCAL_ENGINE = Engine()


def choose_device(name: str, engine: Engine = LOCAL_ENGINE) -> str:
    """Return the device for `auto` (a GPU if any), `cpu` or `cuda`, or raise UsageError."""
    if name == "cuda" and not engine.has_gpu:
        raise UsageError(
            f"--device cuda: no CUDA device in {engine.description}; use --device auto or cpu"
        )
    return "cuda" if name != "cpu" and engine.has_gpu else "cpu"


def choose_precision(name: str, device: str) -> str:
    """Return the precision of encoders on a CPU; raise UsageError if bfloat16 is not available."""
    if name == FLOAT32:
        return FLOAT32
    if device == "cuda":
        raise UsageError(
            "--precision bfloat16: a GPU always uses float16; omit the flag or use --device cpu"
        )
    if not has_bfloat16_instructions():
        raise UsageError(
            "--precision bfloat16: this CPU has no bfloat16 instructions (AVX-512 BF16 or AMX), so "
            "bfloat16 would be many times slower than float32; omit the flag"
        )
    if find_spec("openvino") is None:
        raise UsageError(
            "--precision bfloat16: OpenVINO is not installed; run "
            f"`{get_install_command('openvino')}`"
        )
    return name


def has_bfloat16_instructions() -> bool:
    """Return whether this CPU has AVX-512 BF16 or AMX."""
    import torch

    features = torch.cpu.get_capabilities()
    return any(value for name, value in features.items() if name.endswith("bf16"))


def count_threads() -> int:
    """Return the number of threads of torch: its setting, at most the available CPU cores."""
    cores = count_cpu_cores()
    if "torch" in sys.modules:
        import torch

        return min(torch.get_num_threads(), cores)
    setting = os.environ.get("OMP_NUM_THREADS", "")
    return min(int(setting), cores) if setting.isdecimal() and int(setting) else cores


def run_task(engine: Engine, function: Callable[[Item], Result], item: Item, device: str) -> Result:
    """Apply a function to a single input on a worker of the engine, and return the result."""
    [(_, result)] = engine.map(function, [(0, item)], device)
    return result


@dataclass(frozen=True)
class Shard(Generic[Item]):
    """Part of a computation: a function that loads its input, and the name of its result."""

    name: str  # of its part
    n_units: int  # units of work, for the progress display
    load_input: Callable[[], Item]  # called when the shard is dispatched


def compute_shards(
    function: Callable[[Item], bytes],
    shards: Sequence[Shard[Item]],
    parts: Parts,
    engine: Engine,
    device: str,
    label: str,
    unit: str,
) -> Callable[[int], bytes]:
    """Compute all missing shards; return a function that reads a shard by index.

    Args:
        function: Returns the content of a shard's part; its exceptions propagate.
        shards: All shards; the partition must not depend on the engine.
        parts: Finished shards, locked while others are computed.
        engine: Computes the shards.
        device: Kind of device of each task.
        label: Name of the computation in logs.
        unit: Unit of work, in the plural.
    """

    def compute(indices: Sequence[int]) -> Iterator[int]:
        """Compute and keep shards; yield the index of each when it is finished."""
        if engine.shares_cache:  # workers write the parts, so that results are not transferred
            write = partial(_compute_and_write, function, parts)
            items = ((index, (shards[index].name, shards[index].load_input())) for index in indices)
            for index, _ in engine.map(write, items, device):
                yield index
        else:
            inputs = ((index, shards[index].load_input()) for index in indices)
            for index, content in engine.map(function, inputs, device):
                parts.write(shards[index].name, content)
                yield index

    with parts.lock():
        missing_indices = [
            index for index, shard in enumerate(shards) if parts.read(shard.name) is None
        ]
        total = sum(shards[index].n_units for index in missing_indices)
        sized_indices = ((index, shards[index].n_units) for index in compute(missing_indices))
        for _ in track_weighted(sized_indices, total, label, unit) if missing_indices else ():
            pass

    def read_shard(index: int) -> bytes:
        shard = shards[index]
        return parts.get_or_build(
            shard.name, lambda: run_task(engine, function, shard.load_input(), device)
        )

    return read_shard


def _compute_and_write(
    function: Callable[[Item], bytes], parts: Parts, item: tuple[str, Item]
) -> None:
    name, shard_input = item
    parts.write(name, function(shard_input))
