"""Benchmarks of reading a corpus, against json and pandas, and of the memory used to stream it to the cache directory.

`python -m tests.benchmarks.corpus METHOD DIRECTORY` is the measured process.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from submission.data.args_me import find_corpus_files, read_arguments
from submission.data.document_store import open_document_store
from submission.search.corpus import Corpus
from submission.storage.cache_directory import CacheDirectory
from tests.benchmarks.benchmark import Process, Result, run_process
from tests.benchmarks.synthetic_inputs import write_json_lines

BASELINE = "json.load and DataFrame"
STEP = 10  # the small corpus consists of every tenth argument


def measure(directory: Path, work_dir: Path, repetitions: int) -> list[Result]:
    """Measure the time and memory of reading a corpus into a frame, and the memory of streaming it to the cache directory."""
    processes: dict[str, list[Process]] = {"ours": [], "baseline": []}
    for _ in range(repetitions):
        for method, runs in processes.items():
            runs.append(run_process("-m", "tests.benchmarks.corpus", method, directory))
    times = {method: [float(process.output) for process in runs] for method, runs in processes.items()}
    medians = {method: statistics.median(values) for method, values in times.items()}
    median_peaks = {method: statistics.median(process.peak for process in runs) / 1e9 for method, runs in processes.items()}
    size = sum(file.stat().st_size for file in find_corpus_files(directory)) / 1e9
    seconds = [f"{value:.2f} s" for value in medians.values()]
    peaks = [f"{value:.2f} GB" for value in median_peaks.values()]
    task = f"corpus of {size:.2f} GB to a frame"
    return [
        Result("corpus", task, BASELINE, *seconds, medians["baseline"] / medians["ours"], 4, times),
        Result("corpus memory", f"{task}: peak memory", BASELINE, *peaks, median_peaks["baseline"] / median_peaks["ours"], 2),
        _measure_streaming(directory, work_dir, size, median_peaks["ours"]),
    ]


def _measure_streaming(directory: Path, work_dir: Path, size: float, frame_peak: float) -> Result:
    """Measure the peak memory of streaming the small and the full corpus, with one argument per line.

    The result's `seconds` hold, instead of times, the peaks in GB and the numbers of arguments, for the simulation.
    """
    peaks, argument_counts = [], []
    for step in (STEP, 1):
        lines_dir = work_dir / f"lines-{step}"
        argument_counts.append(float(write_json_lines(directory, lines_dir, step)))
        peaks.append(run_process("-m", "tests.benchmarks.corpus", "stream", lines_dir).peak / 1e9)
    values = {"peaks": peaks, "arguments": argument_counts}
    sizes = [f"{peaks[1]:.2f} GB", f"{frame_peak:.2f} GB"]
    task = f"corpus of {size:.2f} GB, one argument per line, to the cache directory: peak memory"
    return Result("corpus streamed", task, "to a frame", *sizes, frame_peak / peaks[1], 4, values)


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
