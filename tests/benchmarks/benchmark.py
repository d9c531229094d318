"""Time two implementations alternately, compare costs with targets, and run processes."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aragorn.progress import track

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Benchmark:
    """A task with two implementations that each process `units` units per round."""

    task: str
    baseline_name: str
    unit: str
    units: int
    ours: Callable[[], object]
    baseline: Callable[[], object]
    target: float  # minimum ratio


@dataclass(frozen=True)
class Result:
    """Values of this project and a baseline or target; a ratio above 1 means ours is better."""

    task: str
    baseline_name: str
    ours: str
    baseline: str
    ratio: float
    target: float | None = None  # minimum ratio

    def format(self):
        """Format the result as one line of text."""
        target = "" if self.target is None else f" (target: {self.target:g})"
        return f"{self.task}: {self.ours}; {self.baseline_name}: {self.baseline}; ratio {self.ratio:.2f}{target}"


def compare(benchmark, repetitions):
    """Time both alternately after a warm-up; divide the baseline's median by this project's."""
    rounds = [
        (time_call(benchmark.ours), time_call(benchmark.baseline))
        for _ in track(range(repetitions + 1), benchmark.task, "rounds")
    ]
    ours, baseline = map(statistics.median, zip(*rounds[1:], strict=True))
    rates = [f"{benchmark.units / median:,.1f} {benchmark.unit}/s" for median in (ours, baseline)]
    ratio = baseline / ours
    return Result(benchmark.task, benchmark.baseline_name, *rates, ratio, benchmark.target)


def compare_costs(task, baseline_name, ours, baseline, cell, target):
    """Divide the baseline's time or size by this project's; `cell` formats both."""
    cells = cell.format(ours), cell.format(baseline)
    return Result(task, baseline_name, *cells, baseline / ours, target)


def compare_with_target(task, value, target, unit, digits=2):
    """Divide the maximum `target` of a time or size by the measured `value`, both in `unit`."""
    cells = f"{value:.{digits}f} {unit}", f"{target:g} {unit}"
    return Result(task, "target", *cells, target / value, 1)


def time_call(function):
    """Call a function and return the elapsed seconds."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def run_process(*arguments):
    """Run Python in the root directory and return its output, or raise CalledProcessError."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
