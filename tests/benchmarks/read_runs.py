"""Benchmark of reading a run file of 50 topics with 1,000 documents each."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from pathlib import Path

from submission.data.runs import read_run
from tests.benchmarks.benchmark import Result

TOPICS, DOCUMENTS = 50, 1000
TARGET_SECONDS = 1.0


def measure(repetitions: int) -> Result:
    """Measure the median time of reading the file."""
    rng = random.Random(0)
    lines = [
        f"{topic} Q0 S{rng.randrange(16**8):x}-A{rng.randrange(16**8):x} {rank} {DOCUMENTS - rank + rng.random():.6f} tag\n"
        for topic in range(1, TOPICS + 1)
        for rank in range(1, DOCUMENTS + 1)
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.txt"
        file.write_text("".join(lines))
        read_run(file)
        times = []
        for _ in range(repetitions):
            start = time.perf_counter()
            read_run(file)
            times.append(time.perf_counter() - start)
    median = statistics.median(times)
    task = f"run of {TOPICS} × {DOCUMENTS:,} lines to a frame"
    return Result(
        "read_runs", task, "target", f"{median:.2f} s", f"{TARGET_SECONDS:g} s", TARGET_SECONDS / median, 1, {"ours": times}
    )
