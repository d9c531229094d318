"""Benchmarks of reading a run, and of reading a corpus and streaming it to the cache directory, with the memory used.

`python -m tests.benchmarks.reading METHOD DIRECTORY` is the measured process.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from submission.data.args_me import find_corpus_files, read_arguments
from submission.data.document_store import open_document_store
from submission.data.runs import read_run
from submission.search.corpus import Corpus
from submission.storage.cache_directory import CacheDirectory
from tests.benchmarks.benchmark import Process, Result, compare_with_target, run_process, time_call
from tests.benchmarks.synthetic_inputs import measure_corpus_gigabytes, write_json_lines

BASELINE = "json.load and DataFrame"
STEP = 10  # the small corpus consists of every tenth argument
TOPICS, DOCUMENTS = 50, 1000  # of the run


def measure_run(repetitions: int) -> Result:
    """Measure the median time of reading a run file."""
    rng = random.Random(0)
    lines = [
        f"{topic} Q0 S{rng.randrange(16**8):x}-A{rng.randrange(16**8):x} {rank} {DOCUMENTS - rank + rng.random():.6f} tag\n"
        for topic in range(1, TOPICS + 1)
        for rank in range(1, DOCUMENTS + 1)
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.txt"
        file.write_text("".join(lines))
        _, *times = (time_call(lambda: read_run(file)) for _ in range(repetitions + 1))
    task = f"run of {TOPICS} × {DOCUMENTS:,} lines to a frame"
    return compare_with_target("read_runs", task, statistics.median(times), 1, "s", {"ours": times})


def measure_corpus(directory: Path, work_dir: Path, repetitions: int) -> list[Result]:
    """Measure the time and memory of reading a corpus into a frame, and the memory of streaming it to the cache directory."""
    processes: dict[str, list[Process]] = {"ours": [], "baseline": []}
    for _ in range(repetitions):
        for method, runs in processes.items():
            runs.append(run_process("-m", "tests.benchmarks.reading", method, directory))
    times = {method: [float(process.output) for process in runs] for method, runs in processes.items()}
    medians = {method: statistics.median(values) for method, values in times.items()}
    peak = {method: statistics.median(process.peak for process in runs) / 1e9 for method, runs in processes.items()}
    corpus, rates = f"corpus of {measure_corpus_gigabytes(directory):.2f} GB", [f"{value:.2f} s" for value in medians.values()]
    task, peaks = f"{corpus} to a frame", [f"{value:.2f} GB" for value in peak.values()]
    return [
        Result("corpus", task, BASELINE, *rates, medians["baseline"] / medians["ours"], 4, times),
        Result("corpus memory", f"{task}: peak memory", BASELINE, *peaks, peak["baseline"] / peak["ours"], 2),
        _measure_streaming(directory, work_dir, corpus, peak["ours"]),
    ]


def _measure_streaming(directory: Path, work_dir: Path, corpus: str, frame_peak: float) -> Result:
    """Measure the peak memory of streaming the small and the full corpus, with one argument per line.

    The result's `seconds` hold, instead of times, the peaks in GB and the numbers of arguments, for the simulation.
    """
    peaks, argument_counts = [], []
    for step in (STEP, 1):
        lines_dir = work_dir / f"lines-{step}"
        argument_counts.append(float(write_json_lines(directory, lines_dir, step)))
        peaks.append(run_process("-m", "tests.benchmarks.reading", "stream", lines_dir).peak / 1e9)
    task, sizes = f"{corpus}, one argument per line, to the cache directory: peak memory", (peaks[1], frame_peak)
    values = {"peaks": peaks, "arguments": argument_counts}
    return Result(
        "corpus streamed", task, "to a frame", *(f"{size:.2f} GB" for size in sizes), frame_peak / peaks[1], 4, values
    )


def _read_with_json(files: list[Path]) -> pd.DataFrame:
    """Read a corpus into a frame with json.load."""
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


def _stream(files: list[Path]) -> list[str]:
    """Stream a corpus to a temporary cache directory and return its docnos."""
    directory = files[0].parent
    with tempfile.TemporaryDirectory(dir=directory) as folder, CacheDirectory(Path(folder), directory) as cache:
        return open_document_store(Corpus.from_directory(directory), cache).collection_docnos


if __name__ == "__main__":
    read = {"ours": read_arguments, "baseline": _read_with_json, "stream": _stream}[sys.argv[1]]
    start = time.perf_counter()
    documents = read(find_corpus_files(Path(sys.argv[2])))  # keeps deallocation out of the measured time
    print(time.perf_counter() - start)
