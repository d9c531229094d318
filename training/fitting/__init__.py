"""From tables to checkpoints."""

from __future__ import annotations
