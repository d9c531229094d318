"""Where the networks compute."""

from __future__ import annotations

import torch

from submission.errors import UsageError


def choose_device(name: str) -> torch.device:
    """The device for auto (the GPU if there is one), cpu or cuda. Raises UsageError: cuda without a GPU."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: there is no CUDA device here; use auto or cpu")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
