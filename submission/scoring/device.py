"""Where the networks compute, on how many threads, and what happens when a GPU is too small."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import torch
from joblib import cpu_count
from torch import Tensor

from submission.errors import UsageError

log = logging.getLogger(__name__)


def choose_device(name: str) -> torch.device:
    """The device for auto (the GPU if there is one), cpu or cuda. Raises UsageError: cuda without a GPU."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: there is no CUDA device here; use auto or cpu")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def limit_threads() -> int:
    """Let torch use no more threads than this process may use processors, a container's CPU limit included; how many."""
    torch.set_num_threads(min(torch.get_num_threads(), cpu_count()))  # torch itself does not see the cgroup's limit
    return torch.get_num_threads()


def in_halves(compute: Callable[[np.ndarray], Tensor], rows: np.ndarray) -> Tensor:
    """compute(rows), a value a row; where the GPU's memory does not suffice, of the halves of rows.

    Raises:
        torch.OutOfMemoryError: a single row is too much.
    """
    try:
        return compute(rows)
    except torch.OutOfMemoryError:
        if len(rows) == 1:
            raise
    # Not in the except clause: while the error lives, so do the tensors of its traceback.
    log.warning("the GPU's memory is too small for a batch of %d: computed in halves", len(rows))
    torch.cuda.empty_cache()
    return torch.cat([in_halves(compute, half) for half in np.array_split(rows, 2)])
