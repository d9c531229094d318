"""Compare reading the corpus with json and pandas, and measure streaming it to the cache, each in a process."""

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
STEP = 10  # the small corpus has every tenth argument


def measure(directory: Path, work_dir: Path, repetitions: int) -> list[Result]:
    """Measure time and memory of reading into a frame, and memory of streaming to the cache directory."""
    processes: dict[str, list[Process]] = {"ours": [], "baseline": []}
    for _ in range(repetitions):
        for reader, runs in processes.items():
            runs.append(run_process("-m", "tests.benchmarks.corpus", reader, directory))
    times = {reader: [float(process.output) for process in runs] for reader, runs in processes.items()}
    speed = {reader: statistics.median(values) for reader, values in times.items()}
    peak = {reader: statistics.median(process.peak for process in runs) / 1e9 for reader, runs in processes.items()}
    size = sum(file.stat().st_size for file in find_corpus_files(directory)) / 1e9
    rates = [f"{value:.2f} s" for value in speed.values()]
    peaks = [f"{value:.2f} GB" for value in peak.values()]
    task = f"corpus of {size:.2f} GB to a frame"
    return [
        Result("corpus", task, BASELINE, *rates, speed["baseline"] / speed["ours"], 4, times),
        Result("corpus memory", f"{task}: peak memory", BASELINE, *peaks, peak["baseline"] / peak["ours"], 2),
        _measure_streaming(directory, work_dir, size, peak["ours"]),
    ]


def _measure_streaming(directory: Path, work_dir: Path, size: float, frame: float) -> Result:
    """Measure peak memory with one argument per line; `seconds` has the peaks and sizes of a small and the large corpus."""
    peaks, arguments = [], []
    for step in (STEP, 1):
        lines = work_dir / f"lines-{step}"
        arguments.append(float(write_json_lines(directory, lines, step)))
        peaks.append(run_process("-m", "tests.benchmarks.corpus", "streamed", lines).peak / 1e9)
    values = {"peaks": peaks, "arguments": arguments}
    sizes = [f"{peaks[1]:.2f} GB", f"{frame:.2f} GB"]
    task = f"corpus of {size:.2f} GB, one argument per line, to the cache directory: peak memory"
    return Result("corpus streamed", task, "to a frame", *sizes, frame / peaks[1], 4, values)


def _read_with_json(files: list[Path]) -> pd.DataFrame:
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
    directory = files[0].parent
    with tempfile.TemporaryDirectory(dir=directory) as folder, CacheDirectory(Path(folder), directory) as cache:
        return open_document_store(Corpus.from_directory(directory), cache).collection_docnos


if __name__ == "__main__":
    read = {"ours": read_arguments, "baseline": _read_with_json, "streamed": _stream}[sys.argv[1]]
    start = time.perf_counter()
    documents = read(find_corpus_files(Path(sys.argv[2])))  # referenced: deallocation is not timed
    print(time.perf_counter() - start)
