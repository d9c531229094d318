"""The benchmarks do the work that they time."""

from __future__ import annotations

import pytest

from tests.benchmarks import bert
from tests.benchmarks.__main__ import BENCHMARKS, seconds
from tests.conftest import SAMPLE


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the baseline's own
def test_vanilla_bert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bert, "PAIRS", 6)
    benchmark = BENCHMARKS["vanilla_bert"](SAMPLE)
    assert benchmark.units == len(benchmark.baseline()) == 6  # type: ignore[arg-type]
    assert [len(times) for times in seconds(benchmark, 2)] == [2, 2]
