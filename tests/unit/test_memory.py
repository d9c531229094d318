"""What is said of a process's memory is its own: not what the process that started it had."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.benchmarks.benchmark import execute
from tests.conftest import ROOT

PEAK = "from submission.output.ir_metadata import peak_memory; print(peak_memory())"


def test_the_peak_of_a_child_of_a_large_process() -> None:
    held = b"x" * 1_200_000_000
    found = execute("-c", "print('done')")
    own = subprocess.run([sys.executable, "-c", PEAK], cwd=ROOT, capture_output=True, text=True, check=True)
    assert len(held) > 1e9
    assert found.output == "done\n"
    assert 1e6 < found.peak < 1e8
    assert 1e8 < int(own.stdout) < 1e9


def test_a_child_that_fails() -> None:
    with pytest.raises(RuntimeError, match=r"exit code 3\n.*broken"):
        execute("-c", "import sys; sys.stderr.write('broken'); sys.exit(3)")
