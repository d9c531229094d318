"""The simulation of a cluster, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks.simulation import NETWORK, Costs, checked, simulated, table

FREE = Costs(worker=10, driver=0, sent=0, received=0)


@pytest.mark.parametrize(
    ("parts", "workers", "seconds"), [(1, 1, 10), (1, 8, 10), (7, 1, 70), (7, 2, 40), (8, 8, 10), (9, 8, 20)]
)
def test_workers_that_nothing_holds_up(parts: int, workers: int, seconds: float) -> None:
    found = simulated(parts, workers, FREE)
    assert found.seconds == pytest.approx(seconds)
    assert found.limit == "workers"


def test_a_part_is_handed_out_sent_and_computed() -> None:
    found = simulated(1, 1, Costs(worker=10, driver=1, sent=NETWORK, received=NETWORK))
    assert (found.seconds, found.driver, found.network, found.workers) == (13, 1, 2, 10)


def test_the_driver_is_the_limit_of_many_workers() -> None:
    found = simulated(100, 50, Costs(worker=10, driver=1, sent=0, received=0))
    assert found.limit == "driver"
    assert found.seconds == pytest.approx(110)  # the last part is handed out after 100 and computed in 10


def test_the_network_is_the_limit_of_large_parts() -> None:
    found = simulated(10, 10, Costs(worker=1, driver=0, sent=3 * NETWORK, received=0))
    assert (found.limit, found.network, found.seconds) == ("network", 30, 31)


def test_the_table_is_of_what_was_measured() -> None:
    costs = {"worker": 60.0, "driver": 0.0, "sent": 1e6, "received": 0.0, "shared": 0.01, "named": 900.0}
    results: dict[str, list[dict[str, Any]]] = {
        "corpus": [
            {"name": "corpus"},
            {"name": "corpus kept", "seconds": {"peaks": [0.25, 0.5], "arguments": [100_000.0, 350_000.0]}},
        ],
        "engine": [
            {"name": "engine", "against": "this process, 1 thread", "seconds": {"ours": [8.5, 1, 9], "baseline": [16, 1, 40]}},
            {"name": "many", "against": "of 2,000", "seconds": {"ours": [0.004], "baseline": [0.005]}},
            {"name": "costs", "against": "", "seconds": {name: [value] for name, value in costs.items()}},
        ],
    }
    assert checked(results) == (
        "8 parts of BERT's pairs by two one-thread workers: simulated 8.0 s, measured 8.5 s. "
        "20,000 empty parts, from the cost of 2,000: simulated 100 s, measured 80 s."
    )
    lines = table(results).splitlines()
    assert lines[2] == "| 387,740 | 1 | 76 s | 0.4 GB, 5 MB/s | 0.5 GB | workers, busy 100% |"
    assert lines[6] == "| 50,000,000 | 64, `--shared-cache` | 8 min | 0.0 GB, 0 MB/s | 50.1 GB | driver, busy 100% |"
    assert lines[-1] == checked(results)
