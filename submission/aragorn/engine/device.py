"""Choose device and precision, and count threads, without importing torch, which is slow, where
nothing is computed with networks."""

import os
import sys
from importlib.util import find_spec

from aragorn.engine.base import LOCAL_ENGINE, Engine
from aragorn.errors import UsageError
from aragorn.paths import get_install_command
from aragorn.threads import count_cpu_cores

FLOAT32 = "float32"  # default precision of encoders on a CPU


def choose_device(name: str, engine: Engine = LOCAL_ENGINE) -> str:
    """Return the device for `auto` (a GPU if the engine has one), `cpu` or `cuda`.

    Raises:
        UsageError: If `cuda` is requested and the engine has no GPU.
    """
    if name == "cuda" and not engine.has_gpu:
        raise UsageError(
            f"--device cuda: no CUDA device in {engine.description}; use --device auto or cpu"
        )
    return "cuda" if name != "cpu" and engine.has_gpu else "cpu"


def choose_precision(name: str, device: str) -> str:
    """Return the precision of encoders on a CPU for a value of --precision.

    Raises:
        UsageError: If `name` is `bfloat16` and the device is a GPU or a CPU without bfloat16
            instructions, or OpenVINO is not installed.
    """
    if name == FLOAT32:
        return FLOAT32
    if device == "cuda":
        raise UsageError(
            "--precision bfloat16: a GPU always uses float16; omit the flag or use --device cpu"
        )
    import torch

    if not any(
        is_available
        for feature, is_available in torch.cpu.get_capabilities().items()
        if feature.endswith("bf16")
    ):
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


def count_threads() -> int:
    """Return the number of threads on which torch may compute: its setting, or OMP_NUM_THREADS if it
    is not imported, but at most the number of CPU cores available to this process."""
    cores = count_cpu_cores()
    if "torch" in sys.modules:
        import torch

        return min(torch.get_num_threads(), cores)
    setting = os.environ.get("OMP_NUM_THREADS", "")
    return min(int(setting), cores) if setting.isdecimal() and int(setting) else cores
