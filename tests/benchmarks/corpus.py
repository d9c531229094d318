"""Reading the corpus against the standard library's json, and into --work: time and peak memory, each in its own process."""

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
from tests.benchmarks.benchmark import Process, Result, execute
from tests.benchmarks.synthetic_inputs import lines_of

AGAINST = "json.load and DataFrame"
SHARE = 10  # of the arguments, a small corpus has one of so many


def corpus_reading(directory: Path, folder: Path, repetitions: int) -> list[Result]:
    """Three lines: how fast, with how much memory, and with how much from files of lines into --work."""
    found: dict[str, list[Process]] = {"ours": [], "baseline": []}
    for _ in range(repetitions):
        for how, processes in found.items():
            processes.append(execute("-m", "tests.benchmarks.corpus", how, directory))
    times = {how: [float(process.output) for process in processes] for how, processes in found.items()}
    speed = {how: statistics.median(values) for how, values in times.items()}
    peak = {how: statistics.median(process.peak for process in processes) / 1e9 for how, processes in found.items()}
    size = sum(file.stat().st_size for file in find_corpus_files(directory)) / 1e9
    rates = [f"{value:.2f} s" for value in speed.values()]
    peaks = [f"{value:.2f} GB" for value in peak.values()]
    what = f"corpus of {size:.2f} GB to a frame"
    return [
        Result("corpus", what, AGAINST, *rates, speed["baseline"] / speed["ours"], 4, times),
        Result("corpus memory", f"{what}: peak memory", AGAINST, *peaks, peak["baseline"] / peak["ours"], 2),
        _kept(directory, folder, size, peak["ours"]),
    ]


def _kept(directory: Path, folder: Path, size: float, frame: float) -> Result:
    """The peaks of a corpus with an argument a line and of a small one like it; and how many arguments they have."""
    peaks, arguments = [], []
    for share in (SHARE, 1):
        lines = folder / f"lines-{share}"
        arguments.append(float(lines_of(directory, lines, share)))
        process = execute("-m", "tests.benchmarks.corpus", "kept", lines)
        peaks.append(process.peak / 1e9)
    found = {"peaks": peaks, "arguments": arguments}
    sizes = [f"{peaks[1]:.2f} GB", f"{frame:.2f} GB"]
    what = f"corpus of {size:.2f} GB, an argument a line, into --work: peak memory"
    return Result("corpus kept", what, "to a frame", *sizes, frame / peaks[1], 4, found)


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


def _keep(files: list[Path]) -> list[str]:
    directory = files[0].parent
    with tempfile.TemporaryDirectory(dir=directory) as folder, CacheDirectory(Path(folder), directory) as work:
        return open_document_store(Corpus.from_directory(directory), work).collection_docnos


if __name__ == "__main__":
    read = {"ours": read_arguments, "baseline": _baseline, "kept": _keep}[sys.argv[1]]
    start = time.perf_counter()
    found = read(find_corpus_files(Path(sys.argv[2])))  # kept: to free it is no part of reading
    print(time.perf_counter() - start)
