"""Inference: checkpoints, batching, device and precision."""

from __future__ import annotations
