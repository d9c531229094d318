"""Simulate a cluster that computes the vectors of all premises, from measured costs per shard."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from heapq import heapreplace
from statistics import median
from typing import Any

from submission.engine.ray_engine import TASKS_PER_WORKER
from submission.retrieval.dense import SHARD_SIZE as DENSE_SHARD_SIZE
from tests.benchmarks.engine import FEW, MANY, PAIRS, SHARD_SIZE
from tests.benchmarks.synthetic_inputs import ARGUMENTS

GPU = 300  # one-thread workers per GPU: an assumption, not measured
NETWORK = 1.25e9  # bytes per second: 10 Gbit/s
LARGE = 50_000_000
CASES = ((ARGUMENTS, 1, False), (ARGUMENTS, 8, False), (ARGUMENTS, 64, False), (LARGE, 64, False), (LARGE, 64, True))
HASH = 100  # bytes returned by workers that write results

Results = dict[str, list[dict[str, Any]]]  # rows of each benchmark


@dataclass(frozen=True)
class Costs:
    """Costs of a shard: seconds of worker and driver, bytes sent and received."""

    worker: float
    driver: float
    sent: float
    received: float


@dataclass(frozen=True)
class Outcome:
    """Total seconds of a simulation, and busy seconds of driver, network and each worker."""

    seconds: float
    driver: float
    network: float
    workers: float

    @property
    def bottleneck(self) -> str:
        """Return the component with the most busy time."""
        return max(("driver", "network", "workers"), key=lambda name: float(getattr(self, name)))


def simulate(shards: int, workers: int, costs: Costs, ahead: int = TASKS_PER_WORKER) -> Outcome:
    """Simulate one driver that dispatches shards and stores results, with at most `ahead` shards per worker in flight.

    The driver processes one shard at a time, and the network transfers one at a time.
    """
    transfer = (costs.sent + costs.received) / NETWORK
    idle_from = [0.0] * workers
    completions: deque[float] = deque()  # of the shards in flight
    driver = network = 0.0
    for index in range(shards):
        if index >= ahead * workers:
            driver = max(driver, completions.popleft())
        driver += costs.driver
        network = max(network, driver) + transfer
        completion = max(network, idle_from[0]) + costs.worker
        heapreplace(idle_from, completion)
        completions.append(completion)
    return Outcome(max(driver, completions[-1]), costs.driver * shards, transfer * shards, costs.worker * shards / workers)


def read_costs(results: Results, shared: bool = False) -> Costs:
    """Read the measured costs; `shared`: workers read texts and write results."""
    seconds = _find_row(results["engine"], name="costs")["seconds"]
    values = {name: value for name, [value] in seconds.items()}
    if shared:
        return Costs(values["worker"], values["shared driver"], values["shared sent"], HASH)
    return Costs(values["worker"], values["driver"], values["sent"], values["received"])


def render_table(results: Results) -> str:
    """Render simulated clusters as a Markdown table, followed by a comparison with measurements."""
    lines = ["| premises | GPUs | time | network | driver's memory | bottleneck |", "|---|---|---|---|---|---|"]
    for arguments, gpus, shared in CASES:
        shards, costs = -(-arguments // DENSE_SHARD_SIZE), read_costs(results, shared)
        outcome = simulate(shards, gpus, replace(costs, worker=costs.worker / GPU))
        sent = (costs.sent + costs.received) * shards
        busy = getattr(outcome, outcome.bottleneck) / outcome.seconds
        cells = (
            f"{arguments:,}",
            f"{gpus}, `--shared-cache`" if shared else f"{gpus}",
            _format_time(outcome.seconds),
            f"{sent / 1e9:.1f} GB, {sent / outcome.seconds / 1e6:.0f} MB/s",
            f"{_estimate_memory(results, arguments):.1f} GB",
            f"{outcome.bottleneck}, busy {busy:.0%}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", compare_with_measurements(results)]) + "\n"


def compare_with_measurements(results: Results) -> str:
    """Compare simulations with measurements: BERT on two one-thread workers, and many empty shards."""
    throughput = _find_row(results["engine"], baseline_name="this process, 1 thread")["seconds"]
    shards = PAIRS // SHARD_SIZE
    bert = simulate(shards, 2, replace(read_costs(results), worker=median(throughput["baseline"]) / shards))
    empty_shards = _find_row(results["engine"], name="many empty shards")["seconds"]
    [few], [many] = empty_shards["baseline"], empty_shards["ours"]
    empty = simulate(MANY, 2, Costs(worker=0, driver=few, sent=0, received=0))
    return (
        f"{shards} shards of BERT's pairs on two one-thread workers: simulated {bert.seconds:.1f} s, "
        f"measured {median(throughput['ours']):.1f} s. "
        f"{MANY:,} empty shards, from the cost of {FEW:,}: simulated {empty.seconds:.0f} s, measured {many * MANY:.0f} s."
    )


def _estimate_memory(results: Results, arguments: int) -> float:
    """Estimate the driver's memory in GB by a line through the two measured corpora with texts on disk."""
    values = _find_row(results["corpus"], name="corpus streamed")["seconds"]
    (small, large), (few, many) = values["peaks"], values["arguments"]
    return float(large + (arguments - many) * (large - small) / (many - few))


def _find_row(rows: list[dict[str, Any]], **fields: str) -> dict[str, Any]:
    [row] = [row for row in rows if fields.items() <= row.items()]
    return row


def _format_time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
