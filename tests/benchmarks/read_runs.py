"""Reading a run file of the largest size that is usual: 50 topics, 1,000 documents each."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from pathlib import Path

from submission.data.runs import read_run
from tests.benchmarks.benchmark import Result

TOPICS, DOCUMENTS, ASKED = 50, 1000, 1.0  # seconds


def reading(repetitions: int) -> Result:
    """The time of one reading in order, against what is asked for."""
    draw = random.Random(0)
    lines = [
        f"{topic} Q0 S{draw.randrange(16**8):x}-A{draw.randrange(16**8):x} {rank} {DOCUMENTS - rank + draw.random():.6f} tag\n"
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
    seconds = statistics.median(times)
    what = f"a run of {TOPICS} × {DOCUMENTS:,} lines to a frame"
    return Result("run", what, "what is asked for", f"{seconds:.2f} s", f"{ASKED:g} s", ASKED / seconds, 1, {"ours": times})
