"""Measure the seconds of each stage of an execution."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Seconds by stage; a stage within another one counts for itself only."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._within = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of a with block to a stage."""
        outer, self._within = self._within, 0.0
        start = time.monotonic()
        try:
            yield
        finally:
            whole = time.monotonic() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + whole - self._within
            self._within = outer + whole
