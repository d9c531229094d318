"""Time two implementations alternately, compare costs with targets, and run processes."""

import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from aragorn.progress import track
from tests.benchmarks.synthetic_inputs import write_full_size

ROOT = Path(__file__).parent.parent.parent


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


@dataclass
class Inputs:
    """Inputs and settings that the benchmarks share."""

    directory: Path
    full_size_dir: Path | None
    work_dir: Path
    repetitions: int

    @cached_property
    def full_size(self):
        """Input with a full-size corpus: that of `--full`, else generated from `directory`."""
        return self.full_size_dir or write_full_size(self.directory, self.work_dir / "full")

    def compare(self, task, baseline_name, unit, n_units, ours, baseline, target):
        """Time two functions alternately after a warm-up; divide the medians of their times."""
        rounds = [
            (time_call(ours), time_call(baseline))
            for _ in track(range(self.repetitions + 1), task, "rounds")
        ]
        medians = [*map(statistics.median, zip(*rounds[1:], strict=True))]
        rates = [f"{n_units / median:,.1f} {unit}/s" for median in medians]
        return Result(task, baseline_name, *rates, medians[1] / medians[0], target)


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
