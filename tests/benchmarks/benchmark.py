"""Time two implementations alternately, and measure the time and peak memory of processes."""

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
    """This project's and a baseline's implementation of a task, and the number of units that each processes."""

    name: str
    baseline_name: str
    unit: str
    units: int
    ours: Callable[[], object]
    baseline: Callable[[], object]


@dataclass(frozen=True)
class Result:
    """This project's measurement, that of a baseline or a target, and their ratio."""

    name: str
    task: str
    baseline_name: str
    ours: str
    baseline: str
    ratio: float
    target: float | None = None  # minimum ratio
    seconds: dict[str, list[float]] = field(default_factory=dict)  # times of the repetitions, by implementation

    def format(self) -> str:
        """Format the result as one line of text."""
        target = "" if self.target is None else f" (target: {self.target:g})"
        return f"{self.task}: {self.ours}; {self.baseline_name}: {self.baseline}; ratio {self.ratio:.2f}{target}"


def compare(benchmark: Benchmark, task: str, target: float | None, repetitions: int) -> Result:
    """Time both implementations and compute the ratio of their medians."""
    ours, baseline = time_rounds(benchmark, repetitions)
    medians = statistics.median(ours), statistics.median(baseline)
    rates = [f"{benchmark.units / median:,.1f} {benchmark.unit}/s" for median in medians]
    times = {"ours": ours, "baseline": baseline}
    return Result(benchmark.name, task, benchmark.baseline_name, *rates, medians[1] / medians[0], target, times)


def time_rounds(benchmark: Benchmark, repetitions: int) -> tuple[list[float], list[float]]:
    """Time both implementations alternately, after a warm-up round."""
    ours: list[float] = []
    baseline: list[float] = []
    for round_ in track(range(repetitions + 1), benchmark.name, "rounds"):
        for times, function in ((ours, benchmark.ours), (baseline, benchmark.baseline)):
            start = time.perf_counter()
            function()
            if round_:
                times.append(time.perf_counter() - start)
    return ours, baseline


@dataclass(frozen=True)
class Process:
    """Seconds, peak memory in bytes and standard output of a finished process."""

    seconds: float
    peak: int
    output: str


def run_process(*arguments: str | Path) -> Process:
    """Run the Python interpreter with arguments in the project's root directory.

    Raises:
        RuntimeError: If the process exits with an error.
    """
    with tempfile.NamedTemporaryFile() as peak_file:
        start = time.perf_counter()
        command = [sys.executable, "-S", subprocess_runner.__file__, peak_file.name, *map(str, arguments)]
        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        elapsed = time.perf_counter() - start
        if process.returncode:
            raise RuntimeError(f"{arguments}: exit code {process.returncode}\n{process.stderr}")
        return Process(elapsed, int(peak_file.read()), process.stdout)
