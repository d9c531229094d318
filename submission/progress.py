"""Progress of long work on stderr: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from tqdm import tqdm

log = logging.getLogger(__name__)

T = TypeVar("T")
SECONDS_BETWEEN_LINES = 30.0


def progress(items: Sequence[T], what: str, unit: str, weights: Sequence[int] | None = None) -> Iterator[T]:
    """Iterate over items, reporting how far it is, how fast, and how long it will take.

    Args:
        items: what to iterate over.
        what: the name of the work.
        unit: what is counted, in the plural.
        weights: how many units each item is; 1 by default.
    """
    sizes = weights or [1] * len(items)
    return progress_of(zip(items, sizes, strict=True), sum(sizes), what, unit)


def progress_of(items: Iterable[tuple[T, int]], total: int, what: str, unit: str) -> Iterator[T]:
    """The same for items that come with their numbers of units, in any order, `total` in all."""
    if sys.stderr.isatty():
        with tqdm(total=total, desc=what, unit=f" {unit}", leave=False) as bar:
            for item, size in items:
                yield item
                bar.update(size)
    else:
        yield from _lines(items, total, what, unit)


def _lines(items: Iterable[tuple[T, int]], total: int, what: str, unit: str) -> Iterator[T]:
    done = 0
    start = last = time.monotonic()
    for item, size in items:
        yield item
        done += size
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            rate = done / (now - start)
            log.info("%s: %d of %d %s, %.1f/s, %.0f s left", what, done, total, unit, rate, (total - done) / rate)
    log.info("%s: %d %s in %.1f s", what, done, unit, time.monotonic() - start)
