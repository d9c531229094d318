"""Report progress on stderr: a bar on a terminal, else log lines at intervals."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from tqdm import tqdm

log = logging.getLogger(__name__)

T = TypeVar("T")
LOG_INTERVAL_SECONDS = 30.0


def track(items: Sequence[T], description: str, unit: str, weights: Sequence[int] | None = None) -> Iterator[T]:
    """Iterate over items and report progress, rate and remaining time; `unit` is a plural, `weights` are units per item."""
    sizes = weights or [1] * len(items)
    return track_weighted(zip(items, sizes, strict=True), sum(sizes), description, unit)


def track_weighted(items: Iterable[tuple[T, int]], total: int, description: str, unit: str) -> Iterator[T]:
    """Iterate over (item, units) pairs in any order and report progress towards `total`."""
    if sys.stderr.isatty():
        with tqdm(total=total, desc=description, unit=f" {unit}", leave=False) as bar:
            for item, weight in items:
                yield item
                bar.update(weight)
    else:
        yield from _track_in_log(items, total, description, unit)


def _track_in_log(items: Iterable[tuple[T, int]], total: int, description: str, unit: str) -> Iterator[T]:
    done = 0
    start = last = time.monotonic()
    for item, weight in items:
        yield item
        done += weight
        now = time.monotonic()
        if now - last >= LOG_INTERVAL_SECONDS:
            last = now
            rate = done / (now - start)
            log.info("%s: %d of %d %s, %.1f/s, %.0f s left", description, done, total, unit, rate, (total - done) / rate)
    log.info("%s: %d %s in %.1f s", description, done, unit, time.monotonic() - start)
