"""Reading the corpus against the standard library's json: time and peak memory, each in a process of its own."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import pandas as pd

from submission.input.args_me import corpus_files, read_documents
from tests.benchmarks.measure import Process, Result, execute

AGAINST = "json.load and DataFrame"


def corpus_reading(directory: Path, repetitions: int) -> list[Result]:
    """Two lines: how fast, and with how much memory."""
    found: dict[str, list[Process]] = {"ours": [], "baseline": []}
    for _ in range(repetitions):
        for how, processes in found.items():
            processes.append(execute("-m", "tests.benchmarks.corpus", how, directory))
    times = {how: [float(process.output) for process in processes] for how, processes in found.items()}
    speed = {how: statistics.median(values) for how, values in times.items()}
    peak = {how: statistics.median(process.peak for process in processes) / 1e9 for how, processes in found.items()}
    size = sum(file.stat().st_size for file in corpus_files(directory)) / 1e9
    rates = [f"{value:.2f} s" for value in speed.values()]
    peaks = [f"{value:.2f} GB" for value in peak.values()]
    what = f"corpus of {size:.2f} GB to a frame"
    return [
        Result("corpus", what, AGAINST, *rates, speed["baseline"] / speed["ours"], 4, times),
        Result("corpus memory", f"{what}: peak memory", AGAINST, *peaks, peak["baseline"] / peak["ours"], 2),
    ]


def _baseline(files: list[Path]) -> pd.DataFrame:
    arguments = []
    for file in files:
        with file.open(encoding="utf-8") as stream:
            arguments += json.load(stream)["arguments"]
    return pd.DataFrame(
        {
            "docno": [argument["id"] for argument in arguments],
            "conclusion": [argument["conclusion"] for argument in arguments],
            "premise": [" ".join(premise["text"] for premise in argument["premises"]) for argument in arguments],
        }
    )


if __name__ == "__main__":
    read = {"ours": read_documents, "baseline": _baseline}[sys.argv[1]]
    start = time.perf_counter()
    frame = read(corpus_files(Path(sys.argv[2])))  # kept: to free it is no part of reading
    print(time.perf_counter() - start)
