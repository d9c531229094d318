"""Time two implementations alternately, compare costs with targets, and run processes."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from submission.progress import track

ROOT = Path(__file__).parent.parent.parent
Seconds = dict[str, list[float]]  # times of the repetitions, by implementation


@dataclass(frozen=True)
class Benchmark:
    """A task with two implementations, this project's and a baseline's, that each process `units` units per round."""

    name: str
    task: str
    baseline_name: str
    unit: str
    units: int
    ours: Callable[[], object]
    baseline: Callable[[], object]
    target: float  # minimum ratio


@dataclass(frozen=True)
class Result:
    """Measured values of this project and of a baseline (or a target), and their ratio, above 1 if this project's is better."""

    name: str
    task: str
    baseline_name: str
    ours: str
    baseline: str
    ratio: float
    target: float | None = None  # minimum ratio
    seconds: Seconds = field(default_factory=dict)

    def format(self) -> str:
        """Format the result as one line of text."""
        target = "" if self.target is None else f" (target: {self.target:g})"
        return f"{self.task}: {self.ours}; {self.baseline_name}: {self.baseline}; ratio {self.ratio:.2f}{target}"


def compare(benchmark: Benchmark, repetitions: int) -> Result:
    """Time both implementations alternately, after a warm-up round, and divide the baseline's median by this project's."""
    seconds: Seconds = {"ours": [], "baseline": []}
    for round_ in track(range(repetitions + 1), benchmark.name, "rounds"):
        for times, function in zip(seconds.values(), (benchmark.ours, benchmark.baseline), strict=True):
            elapsed = time_call(function)
            if round_:
                times.append(elapsed)
    ours, baseline = map(statistics.median, seconds.values())
    rates = [f"{benchmark.units / median:,.1f} {benchmark.unit}/s" for median in (ours, baseline)]
    names = benchmark.name, benchmark.task, benchmark.baseline_name
    return Result(*names, *rates, baseline / ours, benchmark.target, seconds)


def compare_costs(
    names: tuple[str, str, str], ours: float, baseline: float, cell: str, target: float, seconds: Seconds | None = None
) -> Result:
    """Divide the baseline's time or size by this project's; `names` are name, task and baseline name; `cell` formats both."""
    return Result(*names, cell.format(ours), cell.format(baseline), baseline / ours, target, seconds or {})


def compare_with_target(
    name: str, task: str, value: float, target: float, unit: str, seconds: Seconds | None = None, digits: int = 2
) -> Result:
    """Divide the maximum `target` of a time or size by the measured `value`, both in `unit`."""
    return Result(name, task, "target", f"{value:.{digits}f} {unit}", f"{target:g} {unit}", target / value, 1, seconds or {})


def time_call(function: Callable[[], object]) -> float:
    """Call a function and return the elapsed seconds."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def run_process(*arguments: str | Path) -> str:
    """Run Python with these arguments in the project's root directory, and return its standard output.

    Raises:
        CalledProcessError: If the process exits with an error.
    """
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
