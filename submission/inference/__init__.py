"""Inference: checkpoints, batching, devices and precision."""

from __future__ import annotations
