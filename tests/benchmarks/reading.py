"""Benchmarks of reading a run and a corpus, and of streaming a corpus to the cache directory.

`python -m tests.benchmarks.reading METHOD DIRECTORY` runs the process whose time and peak memory
are measured.
"""

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import pandas as pd

from aragorn.cache import open_cache
from aragorn.io.dataset import Dataset
from aragorn.io.document_store import open_document_store
from aragorn.io.runs import read_run
from aragorn.io.touche import find_corpus_files, read_documents
from aragorn.ir_metadata import measure_peak_memory
from tests.benchmarks.benchmark import compare_costs, compare_with_target, run_process, time_call
from tests.benchmarks.synthetic_inputs import describe_corpus, write_json_lines

BASELINE = "json.load and DataFrame"
TOPICS, DOCUMENTS = 50, 1000  # of the run


def measure_run(inputs):
    """Compare the median time of reading a run file with a target."""
    rng = random.Random(0)
    lines = [
        f"{topic} Q0 S{rng.randrange(16**8):x}-A{rng.randrange(16**8):x} {rank} {DOCUMENTS - rank + rng.random():.6f} tag\n"
        for topic in range(1, TOPICS + 1)
        for rank in range(1, DOCUMENTS + 1)
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.txt"
        file.write_text("".join(lines))
        _, *times = (time_call(lambda: read_run(file)) for _ in range(inputs.repetitions + 1))
    task = f"run of {TOPICS} × {DOCUMENTS:,} lines to a frame"
    return compare_with_target(task, median(times), 1, "s")


def measure_corpus(inputs):
    """Compare reading a corpus with json.load, and the memory of streaming it with that of both."""
    directory = inputs.full_size
    rounds = [
        [*_read_in_process("ours", directory), *_read_in_process("baseline", directory)]
        for _ in range(inputs.repetitions)
    ]
    seconds, frame_peak, baseline_seconds, baseline_peak = map(median, zip(*rounds, strict=True))
    lines = write_json_lines(directory, inputs.work_dir / "lines")
    _, streaming_peak = _read_in_process("stream", lines)
    corpus = describe_corpus(directory)
    frame = f"{corpus} to a frame"
    memory = f"{frame}: peak memory"
    streaming = f"{corpus}, one argument per line, to the cache directory: peak memory"
    return [
        compare_costs(frame, BASELINE, seconds, baseline_seconds, "{:.2f} s", 4),
        compare_costs(memory, BASELINE, frame_peak, baseline_peak, "{:.2f} GB", 2),
        compare_costs(streaming, "to a frame", streaming_peak, frame_peak, "{:.2f} GB", 4),
    ]


def _read_in_process(method, directory):
    """Read a corpus in a separate process; return seconds and peak memory in GB."""
    seconds, peak = run_process("-m", "tests.benchmarks.reading", method, directory).split()
    return float(seconds), int(peak) / 1e9


def _read_with_json(files):
    """Read corpus files into a frame with json.load."""
    arguments = []
    for file in files:
        with file.open(encoding="utf-8") as stream:
            arguments += json.load(stream)["arguments"]
    rows = [
        (item["id"], item["conclusion"], " ".join(part["text"] for part in item["premises"]))
        for item in arguments
    ]
    return pd.DataFrame(rows, columns=["docno", "conclusion", "premise"])


def _stream(files):
    """Stream the corpus of `files` to a temporary cache directory; return its docnos."""
    directory = files[0].parent
    with (
        tempfile.TemporaryDirectory(dir=directory) as folder,
        open_cache(Path(folder), directory) as cache,
    ):
        return open_document_store(Dataset(directory, has_topics=False), cache).collection_docnos


if __name__ == "__main__":
    read = {"ours": read_documents, "baseline": _read_with_json, "stream": _stream}[sys.argv[1]]
    start = time.perf_counter()
    # keeps deallocation out of the measured time
    documents = read(find_corpus_files(Path(sys.argv[2])))
    print(time.perf_counter() - start, measure_peak_memory())
