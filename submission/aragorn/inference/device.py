"""Run batches of texts of similar length on a device, within GPU memory.

Pretrained encoders run in float16 on a GPU, and in float32 or bfloat16 (with OpenVINO) on a CPU;
topic vectors and probes are always float32. All other networks are trained and applied in float32:
importing this module, as all that compute with networks do, turns TF32 off, in which torch computes
convolutions and recurrent layers on a GPU by default, and limits the number of threads.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch

from aragorn.engine import FLOAT32, count_threads
from aragorn.models.network import Network

log = logging.getLogger(__name__)

# its 10-bit mantissa would change scores and trainings from those of a CPU
torch.backends.cudnn.allow_tf32 = False
torch.backends.cuda.matmul.allow_tf32 = False

NetworkT = TypeVar("NetworkT", bound=Network)
T = TypeVar("T")
# Tokens per batch. On a CPU, their activations fit into the cache; in bfloat16 twice as many do.
MAX_TOKENS_CPU = 1024
MAX_TOKENS_CPU_BF16 = 2048
MAX_TOKENS_GPU = 65536


def move_to_device(network: NetworkT, device: str, cpu_precision: str = FLOAT32) -> NetworkT:
    """Move a network to a device, with its precision there (float16 on a GPU), and return it."""
    network.to(device)
    cpu_dtype = None if cpu_precision == FLOAT32 else torch.bfloat16
    network.set_encoder_precision(torch.float16 if device == "cuda" else cpu_dtype)
    return network


def limit_threads() -> int:
    """Limit torch to the CPU cores of this process or container; return the thread count."""
    torch.set_num_threads(count_threads())  # torch ignores quotas
    return torch.get_num_threads()


# of this process, before any thread has changed its own count
N_THREADS = limit_threads()


def batch_by_length(lengths: Sequence[int] | np.ndarray, size: int) -> list[np.ndarray]:
    """Group row numbers into deterministic batches of at most `size` texts, shortest first."""
    order = np.argsort(lengths, kind="stable")
    return [order[start : start + size] for start in range(0, len(order), size)]


def batch_by_tokens(lengths: Sequence[int] | np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Group row numbers into batches of at most `max_tokens` with padding, or a single longer text;
    longest first."""
    order = np.argsort(-np.asarray(lengths), kind="stable")
    batches = []
    while len(order):
        size = max(1, max_tokens // max(1, int(lengths[order[0]])))
        batches.append(order[:size])
        order = order[size:]
    return batches


def batch_by_shape(
    lengths: Sequence[int], round_up: Callable[[int], int], max_tokens: int
) -> list[np.ndarray]:
    """Group rows into batches whose shape depends only on their texts' length, longest first.

    A batch contains texts that `round_up` pads to the same length. The last batch of each length
    repeats its rows to be as large as the others, so that a text's result does not depend on the
    other texts. Texts that need no padding have separate batches, which need no mask.
    """
    padded = np.array([round_up(length) for length in lengths], dtype=int)
    batches = []
    unpadded = padded == np.asarray(lengths)
    for length in np.unique(padded)[::-1].tolist():
        size = max(1, max_tokens // length)
        for rows in (
            np.flatnonzero((padded == length) & is_full) for is_full in (unpadded, ~unpadded)
        ):
            batches += [
                np.resize(batch, size)
                for batch in np.split(rows, range(size, len(rows), size))
                if len(batch)
            ]
    return batches


def get_max_batch_tokens(device: str, precision: str = FLOAT32) -> int:
    """Return the tokens per encoder batch; `precision` is that of encoders on a CPU."""
    if device == "cuda":
        return MAX_TOKENS_GPU
    return MAX_TOKENS_CPU if precision == FLOAT32 else MAX_TOKENS_CPU_BF16


@contextmanager
def use_single_thread() -> Iterator[int]:
    """Run torch on one thread, for reproducible results; yield the original count."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield n_threads
    finally:
        torch.set_num_threads(n_threads)


def map_batches(
    compute: Callable[[np.ndarray], T],
    batches: Sequence[np.ndarray],
    device: str,
    join: Callable[[list[T]], T],
) -> list[T]:
    """Return the results of `compute` for batches of row numbers, in order, without gradients.

    A batch that exceeds GPU memory is split, and `join` concatenates the results of its parts. On a
    CPU, each thread computes whole batches, so that results do not depend on the thread count.
    """

    @torch.inference_mode()
    def compute_batch(rows: np.ndarray) -> T:
        return compute_or_split(compute, rows, join)

    with use_single_thread() as n_threads:
        if device == "cuda" or n_threads == 1:
            return [compute_batch(rows) for rows in batches]
        with ThreadPoolExecutor(n_threads, initializer=set_thread_count, initargs=(1,)) as pool:
            return list(pool.map(compute_batch, batches))


def set_thread_count(count: int) -> None:
    """Run torch in this thread on `count` threads, whatever other threads set meanwhile."""
    # the first call in a thread copies the count that any thread has set last
    torch.get_num_threads()
    torch.set_num_threads(count)


def compute_or_split(
    compute: Callable[[np.ndarray], T], rows: np.ndarray, join: Callable[[list[T]], T]
) -> T:
    """Apply `compute` to row numbers; if GPU memory runs out, to both halves, and join."""
    try:
        return compute(rows)
    except torch.OutOfMemoryError:
        if len(rows) == 1:
            raise
    # Outside the except clause, because the error's traceback keeps tensors alive.
    log.warning("GPU out of memory for a batch of %d rows; splitting it in half", len(rows))
    torch.cuda.empty_cache()
    return join([compute_or_split(compute, half, join) for half in np.array_split(rows, 2)])
