"""What a benchmark is, and how a ratio is measured."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from submission.progress import track
from tests.benchmarks import subprocess_runner

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Benchmark:
    """Two ways to do the same work, and how much work it is."""

    name: str
    against: str  # what the baseline is
    unit: str
    units: int
    ours: Callable[[], object]
    baseline: Callable[[], object]


@dataclass(frozen=True)
class Result:
    """A line of the table: what was measured, against what, and how many times better it is."""

    name: str
    what: str
    against: str
    ours: str
    baseline: str
    ratio: float
    at_least: float | None = None  # what is asked for
    seconds: dict[str, list[float]] = field(default_factory=dict)  # of the repetitions

    def line(self) -> str:
        """For people."""
        asked = "" if self.at_least is None else f" (at least {self.at_least:g} is asked for)"
        return f"{self.what}: {self.ours}; {self.against}: {self.baseline}; {self.ratio:.2f} times{asked}"


def compare(benchmark: Benchmark, what: str, at_least: float | None, repetitions: int) -> Result:
    """The ratio of the medians of times that are taken in turns."""
    ours, baseline = seconds(benchmark, repetitions)
    medians = statistics.median(ours), statistics.median(baseline)
    rates = [f"{benchmark.units / median:,.1f} {benchmark.unit}/s" for median in medians]
    times = {"ours": ours, "baseline": baseline}
    return Result(benchmark.name, what, benchmark.against, *rates, medians[1] / medians[0], at_least, times)


def seconds(benchmark: Benchmark, repetitions: int) -> tuple[list[float], list[float]]:
    """Times of ours and of the baseline, taken in turns after one round that is not counted."""
    ours: list[float] = []
    baseline: list[float] = []
    for round_ in track(range(repetitions + 1), benchmark.name, "rounds"):
        for times, work in ((ours, benchmark.ours), (baseline, benchmark.baseline)):
            start = time.perf_counter()
            work()
            if round_:
                times.append(time.perf_counter() - start)
    return ours, baseline


@dataclass(frozen=True)
class Process:
    """What a process took and said."""

    seconds: float
    peak: int  # bytes of memory
    output: str


def execute(*arguments: str | Path) -> Process:
    """Run this Python with arguments in the project's root. Raises RuntimeError: it failed."""
    with tempfile.NamedTemporaryFile() as peak:
        start = time.perf_counter()
        command = [sys.executable, "-S", subprocess_runner.__file__, peak.name, *map(str, arguments)]
        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        elapsed = time.perf_counter() - start
        if process.returncode:
            raise RuntimeError(f"{arguments}: exit code {process.returncode}\n{process.stderr}")
        return Process(elapsed, int(peak.read()), process.stdout)
