"""Benchmarks: each a ratio against a named baseline in the same run. `python -m tests.benchmarks [-i INPUT] [NAME …]`."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

import torch

from submission.command import SAMPLE
from submission.progress import progress
from tests.benchmarks.bert import vanilla_bert
from tests.benchmarks.measure import Benchmark

BENCHMARKS = {"vanilla_bert": vanilla_bert}


def seconds(benchmark: Benchmark, repetitions: int) -> tuple[list[float], list[float]]:
    """Times of ours and of the baseline, taken in turns after one round that is not counted."""
    ours, baseline = [], []
    for round_ in progress(range(repetitions + 1), benchmark.name, "rounds"):
        for times, work in ((ours, benchmark.ours), (baseline, benchmark.baseline)):
            start = time.perf_counter()
            work()
            if round_:
                times.append(time.perf_counter() - start)
    return ours, baseline


def main() -> None:
    """Run benchmarks and print a table; with --json also a file with all times."""
    parser = argparse.ArgumentParser(prog="tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which (default: all): {', '.join(BENCHMARKS)}")
    parser.add_argument("-i", "--input", type=Path, default=SAMPLE, metavar="DIR", help="topics and corpus to measure on")
    parser.add_argument("--repetitions", type=int, default=3, help="of which the medians are taken")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the times")
    options = parser.parse_args()
    results = []
    for name in options.names or BENCHMARKS:
        benchmark = BENCHMARKS[name](options.input)
        ours, baseline = seconds(benchmark, options.repetitions)
        medians = statistics.median(ours), statistics.median(baseline)
        rates = [benchmark.units / median for median in medians]
        ratio = medians[1] / medians[0]
        print(f"{name}: {rates[0]:.1f} {benchmark.unit}/s, {benchmark.against} {rates[1]:.1f}: {ratio:.2f} times as fast")
        times = {"seconds": ours, "baseline seconds": baseline, "units": benchmark.units, "unit": benchmark.unit}
        results.append({"name": name, "against": benchmark.against, "ratio": ratio, **times})
    if options.json:
        machine = {"processor": platform.processor() or platform.machine(), "threads": torch.get_num_threads()}
        options.json.write_text(json.dumps({"machine": machine, "torch": torch.__version__, "results": results}, indent=1))


if __name__ == "__main__":
    main()
