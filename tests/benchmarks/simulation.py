"""Simulate, from measured costs per shard, a cluster that computes the vectors of all premises."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from heapq import heapreplace
from statistics import median
from typing import Any

from submission.engine.ray_engine import TASKS_PER_WORKER
from submission.retrieval.dense import SHARD_SIZE as DENSE_SHARD_SIZE
from tests.benchmarks.engine import FEW_SHARDS, MANY_SHARDS, PAIRS, SHARD_SIZE
from tests.benchmarks.synthetic_inputs import ARGUMENTS

GPU_SPEEDUP = 300  # assumed, not measured; relative to a one-thread worker
BYTES_PER_SECOND = 1.25e9  # of a 10 Gbit/s network
LARGE = 50_000_000  # number of premises
# premises, GPUs, shared cache
CASES = ((ARGUMENTS, 1, False), (ARGUMENTS, 8, False), (ARGUMENTS, 64, False), (LARGE, 64, False), (LARGE, 64, True))
HASH_BYTES = 100  # size of the hash returned by a worker that writes its result to a shared cache

Results = dict[str, list[dict[str, Any]]]  # rows by benchmark


@dataclass(frozen=True)
class Costs:
    """Costs of a shard: seconds of the worker, seconds of the driver, and bytes sent to and received from the worker."""

    worker: float
    driver: float
    sent: float
    received: float


@dataclass(frozen=True)
class Outcome:
    """Duration of a simulated computation in seconds, and busy seconds of driver, network and (on average) a worker."""

    seconds: float
    driver: float
    network: float
    workers: float

    @property
    def bottleneck(self) -> str:
        """Component that is busy longest: "driver", "network" or "workers"."""
        return max(("driver", "network", "workers"), key=lambda name: float(getattr(self, name)))


def simulate(shards: int, workers: int, costs: Costs, max_in_flight: int = TASKS_PER_WORKER) -> Outcome:
    """Simulate a driver that dispatches shards to workers over a network and stores their results.

    The driver and the network process one shard at a time. At any time, at most `max_in_flight` shards per
    worker are dispatched and unfinished.
    """
    transfer = (costs.sent + costs.received) / BYTES_PER_SECOND
    idle_from = [0.0] * workers
    completions: deque[float] = deque()  # completion times of the shards in flight
    driver = network = 0.0
    for index in range(shards):
        if index >= max_in_flight * workers:
            driver = max(driver, completions.popleft())
        driver += costs.driver
        network = max(network, driver) + transfer
        completion = max(network, idle_from[0]) + costs.worker
        heapreplace(idle_from, completion)
        completions.append(completion)
    return Outcome(max(driver, completions[-1]), costs.driver * shards, transfer * shards, costs.worker * shards / workers)


def read_costs(results: Results, is_cache_shared: bool = False) -> Costs:
    """Return the measured costs per shard; with a shared cache, workers read texts and write results, so that less is sent."""
    seconds = _find_row(results["engine"], name="costs")["seconds"]
    values = {name: value for name, [value] in seconds.items()}
    if is_cache_shared:
        return Costs(values["worker"], values["shared driver"], values["shared sent"], HASH_BYTES)
    return Costs(values["worker"], values["driver"], values["sent"], values["received"])


def render_table(results: Results) -> str:
    """Render a Markdown table of the simulated clusters in `CASES`, followed by simulated and measured times."""
    lines = ["| premises | GPUs | time | network | driver's memory | bottleneck |", "|---|---|---|---|---|---|"]
    for premise_count, gpu_count, is_cache_shared in CASES:
        shards, costs = -(-premise_count // DENSE_SHARD_SIZE), read_costs(results, is_cache_shared)
        outcome = simulate(shards, gpu_count, replace(costs, worker=costs.worker / GPU_SPEEDUP))
        transferred = (costs.sent + costs.received) * shards
        busy_share = getattr(outcome, outcome.bottleneck) / outcome.seconds
        cells = (
            f"{premise_count:,}",
            f"{gpu_count}, `--shared-cache`" if is_cache_shared else f"{gpu_count}",
            _format_time(outcome.seconds),
            f"{transferred / 1e9:.1f} GB, {transferred / outcome.seconds / 1e6:.0f} MB/s",
            f"{_estimate_memory(results, premise_count):.1f} GB",
            f"{outcome.bottleneck}, busy {busy_share:.0%}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", compare_with_measurements(results)]) + "\n"


def compare_with_measurements(results: Results) -> str:
    """Format simulated and measured times, for Vanilla BERT on two one-thread workers and for many empty shards."""
    throughput = _find_row(results["engine"], baseline_name="this process, 1 thread")["seconds"]
    shards = PAIRS // SHARD_SIZE
    bert = simulate(shards, 2, replace(read_costs(results), worker=median(throughput["baseline"]) / shards))
    empty_shards = _find_row(results["engine"], name="many empty shards")["seconds"]
    [few], [many] = empty_shards["baseline"], empty_shards["ours"]
    empty = simulate(MANY_SHARDS, 2, Costs(worker=0, driver=few, sent=0, received=0))
    return (
        f"{shards} shards of BERT's pairs on two one-thread workers: simulated {bert.seconds:.1f} s, "
        f"measured {median(throughput['ours']):.1f} s. "
        f"{MANY_SHARDS:,} empty shards, from the cost of {FEW_SHARDS:,}: simulated {empty.seconds:.0f} s, "
        f"measured {many * MANY_SHARDS:.0f} s."
    )


def _estimate_memory(results: Results, argument_count: int) -> float:
    """Extrapolate the driver's peak memory in GB linearly from those of streaming two corpora of different sizes."""
    values = _find_row(results["corpus"], name="corpus streamed")["seconds"]
    (small_peak, large_peak), (few, many) = values["peaks"], values["arguments"]
    return float(large_peak + (argument_count - many) * (large_peak - small_peak) / (many - few))


def _find_row(rows: list[dict[str, Any]], **fields: str) -> dict[str, Any]:
    """Return the row in which all `fields` have these values; exactly one must match."""
    [row] = [row for row in rows if fields.items() <= row.items()]
    return row


def _format_time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
