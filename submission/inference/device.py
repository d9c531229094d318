"""Device, precision and threads, and batches that fit into GPU memory.

Pretrained encoders run in float16 on a GPU and in float32 or bfloat16 on a CPU; topic vectors and probes always in float32.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from joblib import cpu_count

from submission.engine.base import LOCAL_ENGINE, Engine
from submission.errors import UsageError
from submission.models.network import Network

log = logging.getLogger(__name__)

N = TypeVar("N", bound=Network)
T = TypeVar("T")
# Tokens per batch: activations of this many stay in the CPU cache, of twice as many in bfloat16.
MAX_TOKENS_CPU, MAX_TOKENS_CPU_BF16, MAX_TOKENS_GPU = 1024, 2048, 65536


def choose_device(name: str, engine: Engine = LOCAL_ENGINE) -> torch.device:
    """Return the device for auto (GPU if the engine has one), cpu or cuda. Raises UsageError for cuda without a GPU."""
    if name == "cuda" and not engine.has_gpu:
        raise UsageError(f"--device cuda: no CUDA device in {engine.description}; use --device auto or cpu")
    return torch.device("cuda" if name != "cpu" and engine.has_gpu else "cpu")


def choose_precision(name: str, device: torch.device) -> torch.dtype | None:
    """Return the CPU precision for float32 (None) or bfloat16. Raises UsageError if bfloat16 does not suit the device."""
    if name == "float32":
        return None
    if device.type == "cuda":
        raise UsageError("--precision bfloat16: a GPU always uses float16; omit the flag or use --device cpu")
    if not any(available for feature, available in torch.cpu.get_capabilities().items() if feature.endswith("bf16")):
        raise UsageError(
            "--precision bfloat16: this CPU has no bfloat16 instructions (AVX-512 BF16 or AMX), so it would be many times "
            "slower than float32; omit the flag"
        )
    return torch.bfloat16


def move_to_device(network: N, device: torch.device, precision: torch.dtype | None) -> N:
    """Move a network to a device and set its encoder's bulk precision: `precision` on a CPU, float16 on a GPU."""
    network.to(device)
    network.set_encoder_precision(torch.float16 if device.type == "cuda" else precision)
    return network


def limit_threads() -> int:
    """Limit torch to the processors available to this process, including a container's CPU limit; return the thread count."""
    torch.set_num_threads(min(torch.get_num_threads(), cpu_count()))  # torch ignores the cgroup limit
    return torch.get_num_threads()


def get_max_batch_tokens(device: torch.device, precision: torch.dtype | None = None) -> int:
    """Return the maximum number of tokens per encoder batch for a device and a CPU precision."""
    if device.type == "cuda":
        return MAX_TOKENS_GPU
    return MAX_TOKENS_CPU if precision is None else MAX_TOKENS_CPU_BF16


@contextmanager
def single_thread() -> Iterator[int]:
    """Run torch on one thread, so that results do not depend on the thread count; yield the previous count."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


def map_batches(
    compute: Callable[[np.ndarray], T], batches: Sequence[np.ndarray], device: torch.device, join: Callable[[list[T]], T]
) -> list[T]:
    """Apply `compute` to batches of rows without gradients, in order, splitting batches that exceed GPU memory.

    On a CPU each thread computes whole batches, so that results do not depend on the thread count.
    """

    @torch.inference_mode()
    def compute_batch(rows: np.ndarray) -> T:
        return compute_or_split(compute, rows, join)

    with single_thread() as threads:
        if device.type == "cuda" or threads == 1:
            return [compute_batch(rows) for rows in batches]
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(compute_batch, batches))


def compute_or_split(compute: Callable[[np.ndarray], T], rows: np.ndarray, join: Callable[[list[T]], T]) -> T:
    """Compute rows, one value per row; if GPU memory runs out, compute both halves and join them."""
    try:
        return compute(rows)
    except torch.OutOfMemoryError:
        if len(rows) == 1:
            raise
    # Outside the except clause, because the error's traceback keeps its tensors alive.
    log.warning("GPU out of memory for a batch of %d; computing it in halves", len(rows))
    torch.cuda.empty_cache()
    return join([compute_or_split(compute, half, join) for half in np.array_split(rows, 2)])
