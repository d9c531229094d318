"""Vectors of all premises of a collection by a cluster, simulated from what a part was measured to cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heapreplace
from statistics import median
from typing import Any

from submission.engine.ray_engine import TASKS_PER_WORKER
from submission.retrieval.dense import KEPT_TOGETHER
from tests.benchmarks.engine import FEW, MANY, PAIRS, PART
from tests.benchmarks.synthetic_inputs import ARGUMENTS

GPU = 300  # one-thread workers that a GPU is taken for: an assumption, no GPU was measured
NETWORK = 1.25e9  # bytes a second: ten gigabits
Results = dict[str, list[dict[str, Any]]]  # the lines of each benchmark
LARGE = 50_000_000
CASES = ((ARGUMENTS, 1, False), (ARGUMENTS, 8, False), (ARGUMENTS, 64, False), (LARGE, 64, False), (LARGE, 64, True))
HASH = 100  # bytes that come back where workers write


@dataclass(frozen=True)
class Costs:
    """Of a part, in seconds and bytes."""

    worker: float  # computed
    driver: float  # read, handed out, kept
    sent: float
    received: float


@dataclass(frozen=True)
class Outcome:
    """Of a simulation: seconds in all, and how long driver, network and each worker were at work."""

    seconds: float
    driver: float
    network: float
    workers: float

    @property
    def limit(self) -> str:
        """What was at work the longest."""
        return max(("driver", "network", "workers"), key=lambda name: float(getattr(self, name)))


def simulated(parts: int, workers: int, costs: Costs, ahead: int = TASKS_PER_WORKER) -> Outcome:
    """One driver hands out parts, a few ahead, and keeps what comes back; each worker computes one at a time.

    The driver does one thing after another, and so does the network, by which parts and results pass.
    """
    transfer = (costs.sent + costs.received) / NETWORK
    free = [0.0] * workers  # when a worker has finished
    back: deque[float] = deque()  # when results are there, of the parts that are handed out
    driver = network = 0.0
    for number in range(parts):
        if number >= ahead * workers:  # keep one, hand out one
            driver = max(driver, back.popleft())
        driver += costs.driver
        network = max(network, driver) + transfer
        finished = max(network, free[0]) + costs.worker
        heapreplace(free, finished)
        back.append(finished)
    return Outcome(max(driver, back[-1]), costs.driver * parts, transfer * parts, costs.worker * parts / workers)


def costs_of(results: Results, shared: bool = False) -> Costs:
    """As they were measured; shared: where workers read texts and write results."""
    [line] = [line for line in results["engine"] if line["name"] == "costs"]
    found = {name: values[0] for name, values in line["seconds"].items()}
    if shared:
        return Costs(found["worker"], found["shared"], found["named"], HASH)
    return Costs(found["worker"], found["driver"], found["sent"], found["received"])


def table(results: Results) -> str:
    """The README's, in Markdown, from the results of all benchmarks."""
    memory = _memory(results)
    lines = ["| premises | GPUs | time | network | driver's memory | limit |", "|---|---|---|---|---|---|"]
    for arguments, gpus, shared in CASES:
        parts, measured = -(-arguments // KEPT_TOGETHER), costs_of(results, shared)
        found = simulated(parts, gpus, replace(measured, worker=measured.worker / GPU))
        sent, busy = (measured.sent + measured.received) * parts, getattr(found, found.limit) / found.seconds
        network = f"{sent / 1e9:.1f} GB, {sent / found.seconds / 1e6:.0f} MB/s"
        how = f"{gpus}, `--shared-cache`" if shared else f"{gpus}"
        needed = f"{memory(arguments):.1f} GB"
        cells = f"{arguments:,}", how, _time(found.seconds), network, needed, f"{found.limit}, busy {busy:.0%}"
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", checked(results)]) + "\n"


def _memory(results: Results) -> Callable[[int], float]:
    """What the driver needs for so many arguments whose texts are in --work, in GB: a line through the two corpora measured."""
    [line] = [line for line in results["corpus"] if line["name"] == "corpus kept"]
    (less, more), (few, many) = line["seconds"]["peaks"], line["seconds"]["arguments"]
    return lambda arguments: more + (arguments - many) * (more - less) / (many - few)


def checked(results: Results) -> str:
    """Simulations of two one-thread workers on BERT's parts, and of many empty parts, beside what was measured."""
    [line] = [line for line in results["engine"] if line["against"] == "this process, 1 thread"]
    alone, together = median(line["seconds"]["baseline"]), median(line["seconds"]["ours"])
    parts = PAIRS // PART
    found = simulated(parts, 2, replace(costs_of(results), worker=alone / parts))
    [line] = [line for line in results["engine"] if line["name"] == "many"]
    [few], [many] = line["seconds"]["baseline"], line["seconds"]["ours"]
    empty = simulated(MANY, 2, Costs(worker=0, driver=few, sent=0, received=0))
    return (
        f"{parts} parts of BERT's pairs by two one-thread workers: simulated {found.seconds:.1f} s, measured {together:.1f} s. "
        f"{MANY:,} empty parts, from the cost of {FEW:,}: simulated {empty.seconds:.0f} s, measured {many * MANY:.0f} s."
    )


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
