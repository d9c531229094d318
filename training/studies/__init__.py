"""Experiments that compare training methods with published results; they write tables, no checkpoints."""

from __future__ import annotations
