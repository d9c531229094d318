"""Tests of the simulation of clusters, against hand-computed values, and of its table."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks.simulation import BYTES_PER_SECOND, Costs, compare_with_measurements, render_table, simulate

SECOND = BYTES_PER_SECOND  # bytes that take one second

CASES = [  # shards, workers, costs per shard; seconds, seconds of driver, network and workers, bottleneck
    (1, 1, Costs(worker=10, driver=0, sent=0, received=0), (10, 0, 0, 10, "workers")),
    (1, 8, Costs(worker=10, driver=0, sent=0, received=0), (10, 0, 0, 1.25, "workers")),
    (7, 2, Costs(worker=10, driver=0, sent=0, received=0), (40, 0, 0, 35, "workers")),
    (9, 8, Costs(worker=10, driver=0, sent=0, received=0), (20, 0, 0, 11.25, "workers")),
    (1, 1, Costs(worker=10, driver=1, sent=SECOND, received=SECOND), (13, 1, 2, 10, "workers")),
    (100, 50, Costs(worker=10, driver=1, sent=0, received=0), (110, 100, 0, 20, "driver")),  # last sent after 100 s
    (10, 10, Costs(worker=1, driver=0, sent=3 * SECOND, received=0), (31, 0, 30, 1, "network")),
]


@pytest.mark.parametrize(("shards", "workers", "costs", "expected"), CASES)
def test_simulated_seconds_match_hand_computed_values(
    shards: int, workers: int, costs: Costs, expected: tuple[float, float, float, float, str]
) -> None:
    outcome = simulate(shards, workers, costs)
    seconds = (outcome.seconds, outcome.driver, outcome.network, outcome.workers)
    assert seconds == pytest.approx(expected[:-1])
    assert outcome.bottleneck == expected[-1]


def test_render_table_reads_measured_costs() -> None:
    costs = {"worker": 60.0, "driver": 0.0, "sent": 1e6, "received": 0.0, "shared driver": 0.01, "shared sent": 900.0}
    results: dict[str, list[dict[str, Any]]] = {
        "corpus": [
            {"name": "corpus"},
            {"name": "corpus streamed", "seconds": {"peaks": [0.25, 0.5], "arguments": [100_000.0, 350_000.0]}},
        ],
        "engine": [
            {"name": "engine", "baseline_name": "this process, 1 thread",
             "seconds": {"ours": [8.5, 1, 9], "baseline": [16, 1, 40]}},
            {"name": "many empty shards", "baseline_name": "of 2,000", "seconds": {"ours": [0.004], "baseline": [0.005]}},
            {"name": "costs", "baseline_name": "", "seconds": {name: [value] for name, value in costs.items()}},
        ],
    }  # fmt: skip
    assert compare_with_measurements(results) == (
        "8 shards of BERT's pairs on two one-thread workers: simulated 8.0 s, measured 8.5 s. "
        "20,000 empty shards, from the cost of 2,000: simulated 100 s, measured 80 s."
    )
    lines = render_table(results).splitlines()
    assert lines[2] == "| 387,740 | 1 | 76 s | 0.4 GB, 5 MB/s | 0.5 GB | workers, busy 100% |"
    assert lines[6] == "| 50,000,000 | 64, `--shared-cache` | 8 min | 0.0 GB, 0 MB/s | 50.1 GB | driver, busy 100% |"
    assert lines[-1] == compare_with_measurements(results)
