"""Peak memory of a process, without that of its parent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.benchmarks.benchmark import execute
from tests.conftest import ROOT

PEAK = "from submission.output.ir_metadata import measure_peak_memory; print(measure_peak_memory())"


def test_peak_memory_excludes_parent() -> None:
    ballast = b"x" * 1_200_000_000
    result = execute("-c", "print('done')")
    process = subprocess.run([sys.executable, "-c", PEAK], cwd=ROOT, capture_output=True, text=True, check=True)
    assert len(ballast) > 1e9
    assert result.output == "done\n"
    assert 1e6 < result.peak < 1e8
    assert 1e8 < int(process.stdout) < 1e9


def test_failing_child_raises() -> None:
    with pytest.raises(RuntimeError, match=r"exit code 3\n.*broken"):
        execute("-c", "import sys; sys.stderr.write('broken'); sys.exit(3)")
