"""Tests that the measured peak memory of a process excludes that of its parent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.benchmarks.benchmark import run_process
from tests.conftest import ROOT

PEAK = "from submission.output.ir_metadata import measure_peak_memory; print(measure_peak_memory())"


@pytest.mark.slow
def test_run_process_peak_excludes_the_parent() -> None:
    ballast = b"x" * 1_200_000_000
    process = run_process("-c", "print('done')")
    child = subprocess.run([sys.executable, "-c", PEAK], cwd=ROOT, capture_output=True, text=True, check=True)
    assert len(ballast) > 1e9
    assert process.output == "done\n"
    assert 1e6 < process.peak < 1e8
    assert 1e8 < int(child.stdout) < 1e9


def test_run_process_raises_on_failure() -> None:
    with pytest.raises(RuntimeError, match=r"exit code 3\n.*broken"):
        run_process("-c", "import sys; sys.stderr.write('broken'); sys.exit(3)")
