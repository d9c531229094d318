"""Configure logging, report progress, measure stages, and pause garbage collection."""

import gc
import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread, get_ident
from typing import Any, TypeVar

from aragorn.errors import escape_unprintable, format_message

log = logging.getLogger(__name__)

T = TypeVar("T")
LOG_INTERVAL_SECONDS = 30.0
MAX_SILENT_SECONDS = 4.0  # between messages of `log_when_silent`
# level of messages that are shown even if those of level INFO are suppressed
NOTICE = logging.INFO + 5

_suppressed_threads: set[int] = set()
# descriptions ("": shown by a bar) and start times of running tasks, innermost last
_tasks: list[tuple[Callable[[], str], float]] = []


def configure_logging(is_quiet: bool = False) -> None:
    """Log to stderr, unless logging is configured; if `is_quiet`, only warnings and errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_EscapingFormatter("%(asctime)s %(message)s", "%H:%M:%S"))
    level = logging.WARNING if is_quiet else logging.INFO
    logging.basicConfig(level=level, handlers=[handler])


@contextmanager
def suppress_info() -> Iterator[None]:
    """Suppress this thread's log messages of level INFO and below."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(_is_shown)  # once
    thread = get_ident()
    if thread in _suppressed_threads:
        yield
        return
    _suppressed_threads.add(thread)
    try:
        yield
    finally:
        _suppressed_threads.remove(thread)


def _is_shown(record: logging.LogRecord) -> bool:
    return record.thread not in _suppressed_threads or record.levelno > logging.INFO


@contextmanager
def announce(describe: Callable[[], str]) -> Iterator[None]:
    """Let `log_when_silent` log the description of a block, unless this thread is suppressed."""
    if get_ident() in _suppressed_threads:
        yield
        return
    task = (describe, time.perf_counter())
    _tasks.append(task)
    try:
        yield
    finally:
        _tasks.remove(task)


class _Clock(logging.Handler):
    """Handler that keeps the time of the last message."""

    last_time = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread not in _suppressed_threads:
            self.last_time = record.created


@contextmanager
def log_when_silent() -> Iterator[None]:
    """Log the innermost announced task whenever MAX_SILENT_SECONDS pass without a message."""
    clock = _Clock()
    clock.last_time = time.time()
    finished = Event()

    def watch() -> None:
        while not finished.wait(MAX_SILENT_SECONDS / 8):
            if time.time() - clock.last_time < MAX_SILENT_SECONDS:
                continue
            for describe, start in _tasks[-1:]:  # none, if another thread has removed it
                if description := describe():
                    log.info("%s, %.0f s so far", description, time.perf_counter() - start)

    thread = Thread(target=watch, daemon=True)
    logging.getLogger().addHandler(clock)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
        logging.getLogger().removeHandler(clock)


class _EscapingFormatter(logging.Formatter):
    """Formatter of one line per message, without unprintable characters, and of tracebacks."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 logging's name
        return format_message(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 logging's name
        return "\n".join(map(escape_unprintable, super().formatException(ei).split("\n")))


def track(
    items: Sequence[T], description: str, unit: str, weights: Sequence[int] | None = None
) -> Iterator[T]:
    """Yield items and report progress; `unit` is a plural noun, `weights` are units per item."""
    sizes = weights or [1] * len(items)
    return track_weighted(zip(items, sizes, strict=True), sum(sizes), description, unit)


def track_weighted(
    items: Iterable[tuple[T, int]], total: int, description: str, unit: str
) -> Iterator[T]:
    """Yield the items of (item, number of units) pairs and report progress towards `total`."""
    if not logging.getLogger().isEnabledFor(logging.INFO):
        yield from (item for item, _ in items)
    elif sys.stderr.isatty():
        from tqdm import tqdm  # here, because the import would slow down `--help`

        bar = tqdm(total=total, desc=description, unit=f" {unit}", leave=False)
        with bar, announce(str):
            for item, weight in items:
                yield item
                bar.update(weight)
    else:
        yield from _track_in_log(items, total, description, unit)


def _track_in_log(
    items: Iterable[tuple[T, int]], total: int, description: str, unit: str
) -> Iterator[T]:
    n_done = 0
    start = last_log = time.monotonic()
    with announce(lambda: f"{description}: {n_done} of {total} {unit}"):
        for item, weight in items:
            yield item
            n_done += weight
            now = time.monotonic()
            if now - last_log >= LOG_INTERVAL_SECONDS:
                last_log = now
                rate = n_done / (now - start)
                log.info(
                    "%s: %d of %d %s, %.1f/s, %.0f s left",
                    description,
                    n_done,
                    total,
                    unit,
                    rate,
                    (total - n_done) / rate,
                )
    noun = unit.removesuffix("s") if n_done == 1 else unit
    log.info("%s: %d %s in %.1f s", description, n_done, noun, time.monotonic() - start)


class Stopwatch:
    """Stopwatch whose `seconds` contain the time spent in each stage, excluding nested stages."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._nested_seconds = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the duration of a block, excluding nested stages, to the seconds of `name`."""
        outer_nested = self._nested_seconds
        self._nested_seconds = 0.0
        start = time.monotonic()
        try:
            with announce(lambda: name):
                yield
        finally:
            elapsed = time.monotonic() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + elapsed - self._nested_seconds
            self._nested_seconds = outer_nested + elapsed


@contextmanager
def pause_gc(freeze: bool = False) -> Iterator[None]:
    """Pause garbage collection during a block that allocates many long-lived objects.

    If `freeze` is true, later collections ignore all objects alive at its end (saves 0.5 s in
    `rank`).
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
