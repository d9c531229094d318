"""The precision in which pretrained encoders compute many texts: float16 on a GPU, float32 or bfloat16 on a CPU.

Vectors of topics and probes are computed in float32 everywhere.
"""

from __future__ import annotations

from typing import TypeVar

import torch

from submission.errors import UsageError
from submission.rankers.network import Network

N = TypeVar("N", bound=Network)


def choose_precision(name: str, device: torch.device) -> torch.dtype | None:
    """The precision on a CPU for float32 (None) or bfloat16.

    Raises:
        UsageError: bfloat16 on a GPU, or on a processor that has no instructions for it and would be many times slower.
    """
    if name == "float32":
        return None
    if device.type == "cuda":
        raise UsageError("--precision bfloat16: a GPU computes encoders in float16; leave it out, or give --device cpu")
    if not any(there for feature, there in torch.cpu.get_capabilities().items() if feature.endswith("bf16")):
        raise UsageError(
            "--precision bfloat16: this processor has no instructions for it (AVX-512 BF16 or AMX), and would be many times "
            "slower than in float32; leave it out"
        )
    return torch.bfloat16


def on_device(network: N, device: torch.device, precision: torch.dtype | None) -> N:
    """Move a network to a device, where its encoder computes many texts: on a CPU in `precision`, on a GPU in float16."""
    network.to(device)
    network.use_precision(torch.float16 if device.type == "cuda" else precision)
    return network
