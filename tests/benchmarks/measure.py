"""What a benchmark is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Benchmark:
    """Two ways to do the same work, and how much work it is."""

    name: str
    against: str  # what the baseline is
    unit: str
    units: int
    ours: Callable[[], object]
    baseline: Callable[[], object]
