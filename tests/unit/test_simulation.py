"""Tests of the simulation of clusters against values computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks.simulation import BYTES_PER_SECOND, Costs, compare_with_measurements, render_table, simulate

FREE = Costs(worker=10, driver=0, sent=0, received=0)


@pytest.mark.parametrize(
    ("shards", "workers", "seconds"), [(1, 1, 10), (1, 8, 10), (7, 1, 70), (7, 2, 40), (8, 8, 10), (9, 8, 20)]
)
def test_simulate_independent_workers(shards: int, workers: int, seconds: float) -> None:
    outcome = simulate(shards, workers, FREE)
    assert outcome.seconds == pytest.approx(seconds)
    assert outcome.bottleneck == "workers"


def test_simulate_one_shard() -> None:
    outcome = simulate(1, 1, Costs(worker=10, driver=1, sent=BYTES_PER_SECOND, received=BYTES_PER_SECOND))
    assert (outcome.seconds, outcome.driver, outcome.network, outcome.workers) == (13, 1, 2, 10)


def test_simulate_driver_bottleneck() -> None:
    outcome = simulate(100, 50, Costs(worker=10, driver=1, sent=0, received=0))
    assert outcome.bottleneck == "driver"
    assert outcome.seconds == pytest.approx(110)  # the last shard is dispatched after 100 s and takes 10 s


def test_simulate_network_bottleneck() -> None:
    outcome = simulate(10, 10, Costs(worker=1, driver=0, sent=3 * BYTES_PER_SECOND, received=0))
    assert (outcome.bottleneck, outcome.network, outcome.seconds) == ("network", 30, 31)


def test_render_table_reads_measured_costs() -> None:
    costs = {"worker": 60.0, "driver": 0.0, "sent": 1e6, "received": 0.0, "shared driver": 0.01, "shared sent": 900.0}
    results: dict[str, list[dict[str, Any]]] = {
        "corpus": [
            {"name": "corpus"},
            {"name": "corpus streamed", "seconds": {"peaks": [0.25, 0.5], "arguments": [100_000.0, 350_000.0]}},
        ],
        "engine": [
            {
                "name": "engine",
                "baseline_name": "this process, 1 thread",
                "seconds": {"ours": [8.5, 1, 9], "baseline": [16, 1, 40]},
            },
            {"name": "many empty shards", "baseline_name": "of 2,000", "seconds": {"ours": [0.004], "baseline": [0.005]}},
            {"name": "costs", "baseline_name": "", "seconds": {name: [value] for name, value in costs.items()}},
        ],
    }
    assert compare_with_measurements(results) == (
        "8 shards of BERT's pairs on two one-thread workers: simulated 8.0 s, measured 8.5 s. "
        "20,000 empty shards, from the cost of 2,000: simulated 100 s, measured 80 s."
    )
    lines = render_table(results).splitlines()
    assert lines[2] == "| 387,740 | 1 | 76 s | 0.4 GB, 5 MB/s | 0.5 GB | workers, busy 100% |"
    assert lines[6] == "| 50,000,000 | 64, `--shared-cache` | 8 min | 0.0 GB, 0 MB/s | 50.1 GB | driver, busy 100% |"
    assert lines[-1] == compare_with_measurements(results)
