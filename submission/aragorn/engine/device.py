"""Choose device and precision, and count threads, without importing torch, which is slow."""

import os
import sys
from importlib.util import find_spec

from aragorn.engine import LOCAL_ENGINE, Engine
from aragorn.errors import UsageError
from aragorn.paths import get_install_command
from aragorn.threads import count_cpu_cores

FLOAT32 = "float32"  # default precision of encoders on a CPU


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
    """Return the number of threads of torch: its setting, at most the available CPU cores."""
    cores = count_cpu_cores()
    if "torch" in sys.modules:
        import torch

        return min(torch.get_num_threads(), cores)
    setting = os.environ.get("OMP_NUM_THREADS", "")
    return min(int(setting), cores) if setting.isdecimal() and int(setting) else cores
