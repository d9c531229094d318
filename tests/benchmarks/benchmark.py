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
    """A task with two implementations, this project's and a baseline's, that each process `units`
    units per round."""

    task: str
    baseline_name: str
    unit: str
    units: int
    ours: Callable[[], object]
    baseline: Callable[[], object]
    target: float  # minimum ratio


@dataclass(frozen=True)
class Result:
    """Measured values of this project and of a baseline (or a target), and their ratio, above 1 if
    this project's is better."""

    task: str
    baseline_name: str
    ours: str
    baseline: str
    ratio: float
    target: float | None = None  # minimum ratio

    def format(self) -> str:
        """Format the result as one line of text."""
        target = "" if self.target is None else f" (target: {self.target:g})"
        return f"{self.task}: {self.ours}; {self.baseline_name}: {self.baseline}; ratio {self.ratio:.2f}{target}"


def compare(benchmark: Benchmark, repetitions: int) -> Result:
    """Time both implementations alternately, after a warm-up round, and divide the baseline's
    median by this project's."""
    rounds = [
        (time_call(benchmark.ours), time_call(benchmark.baseline))
        for _ in track(range(repetitions + 1), benchmark.task, "rounds")
    ]
    ours, baseline = map(statistics.median, zip(*rounds[1:], strict=True))
    rates = [f"{benchmark.units / median:,.1f} {benchmark.unit}/s" for median in (ours, baseline)]
    return Result(
        benchmark.task, benchmark.baseline_name, *rates, baseline / ours, benchmark.target
    )


def compare_costs(
    task: str, baseline_name: str, ours: float, baseline: float, cell: str, target: float
) -> Result:
    """Divide the baseline's time or size by this project's; `cell` formats both."""
    return Result(
        task, baseline_name, cell.format(ours), cell.format(baseline), baseline / ours, target
    )


def compare_with_target(
    task: str, value: float, target: float, unit: str, digits: int = 2
) -> Result:
    """Divide the maximum `target` of a time or size by the measured `value`, both in `unit`."""
    return Result(
        task, "target", f"{value:.{digits}f} {unit}", f"{target:g} {unit}", target / value, 1
    )


def time_call(function: Callable[[], object]) -> float:
    """Call a function and return the elapsed seconds."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def run_process(*arguments: str | Path) -> str:
    """Run Python with these arguments in the project's root directory, and return its standard
    output.

    Raises:
        CalledProcessError: If the process exits with an error.
    """
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
