"""Measure the duration of stages, and pause garbage collection."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Stopwatch whose `seconds` contain the time spent in each stage, excluding nested stages."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._nested_seconds = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the duration of a `with` block, excluding nested stages, to the seconds of stage
        `name`."""
        outer_nested = self._nested_seconds
        self._nested_seconds = 0.0
        start = time.monotonic()
        try:
            yield
        finally:
            elapsed = time.monotonic() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + elapsed - self._nested_seconds
            self._nested_seconds = outer_nested + elapsed


@contextmanager
def pause_gc(freeze: bool = False) -> Iterator[None]:
    """Pause garbage collection during a block that allocates many long-lived objects, such as
    imports.

    If `freeze` is true, later collections ignore all objects alive at the end of the block (saves
    0.5 s in `rank`).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if freeze:
            gc.freeze()
        if was_enabled:
            gc.enable()
