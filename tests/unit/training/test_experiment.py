"""Tests of experiments: order, caching and repair of results, and the end of worker processes.

Workers import this module, so it does not import the conftest module, which takes seconds.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import psutil
import pytest
import torch
from aragorn.errors import TrainingError
from aragorn_training.experiment import Experiment, run_experiment
from aragorn_training.parallel import get_default_process_count


class Square(NamedTuple):
    group: str
    value: int


class SquareResult(msgspec.Struct):
    square: int
    threads: int
    process: int


Log = pytest.LogCaptureFixture
CELLS = [Square("a", 3), Square("b", 1), Square("a", 2), Square("c", 9)]


@dataclass
class Squares(Experiment[Square, Any]):
    """An experiment that raises numbers to `power`, logs each computation, and raises TrainingError
    at `fails_at`."""

    name, unit, result_type = "squares", "numbers", SquareResult
    log: Path
    power: int = 2
    fails_at: int = -1

    def get_cache_key(self, cell: Square) -> object:
        return self.power, cell

    def get_group(self, cell: Square) -> str:
        return cell.group

    def estimate_cost(self, cell: Square) -> int:
        return cell.value

    def compute(self, cell: Square) -> Any:
        if cell.value == self.fails_at:
            raise TrainingError(f"{cell.value} learns nothing")
        with self.log.open("a") as stream:
            stream.write(f"{cell.group}{cell.value}\n")
        return SquareResult(cell.value**self.power, torch.get_num_threads(), os.getpid())


class Arrays(Squares):
    name, result_type = "arrays", np.ndarray

    def compute(self, cell: Square) -> np.ndarray:
        return np.array([super().compute(cell).square, np.nan], dtype=np.float32)


@pytest.mark.parametrize("processes", [None, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_experiments_run_largest_groups_first_and_resume(
    tmp_path: Path, processes: int | None, caplog: Log
) -> None:
    log, threads = tmp_path / "log", torch.get_num_threads()
    caplog.set_level(logging.INFO)
    with pytest.raises(TrainingError, match=r"^2 learns nothing$"):
        run_experiment(Squares(log, fails_at=2), CELLS, tmp_path, processes)
    before = log.read_text().split()
    assert "a3" in before  # cached although its group was not finished
    results = run_experiment(Squares(log), CELLS, tmp_path, processes)
    assert [(cell, result.square) for cell, result in results.items()] == [
        (cell, cell.value**2) for cell in CELLS
    ]
    assert f"squares: {len(before)} of 4 results cached" in caplog.text
    lines = log.read_text().split()
    assert lines == ["c9", "a3", "a2", "b1"] or (
        processes == 2 and sorted(lines) == ["a2", "a3", "b1", "c9"]
    )
    assert {result.threads for result in results.values()} == {threads if processes is None else 1}
    assert (os.getpid() in {result.process for result in results.values()}) == (processes != 2)


def test_results_are_cached_by_key_and_damage_is_repaired(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for power, squares in ((2, [9, 1, 4, 81]), (3, [27, 1, 8, 729]), (2, [9, 1, 4, 81])):
        results = run_experiment(Squares(log, power=power), CELLS, tmp_path)
        assert [result.square for result in results.values()] == squares
        arrays = run_experiment(Arrays(log, power=power), CELLS, tmp_path).values()
        assert [array.tobytes() for array in arrays] == [
            np.array([value, np.nan], np.float32).tobytes() for value in squares
        ]
    assert len(log.read_text().split()) == 2 * 2 * 4
    file = min((tmp_path / "squares-results").iterdir())
    content = file.read_bytes()
    for damaged in (content[:-1], content[:-1] + b"?", b""):
        file.write_bytes(damaged)
        assert run_experiment(Squares(log), CELLS, tmp_path) == results
        assert run_experiment(Squares(log, power=3), CELLS, tmp_path)[CELLS[3]].square == 729
        assert file.read_bytes() == content
    assert get_default_process_count(torch.device("cuda")) == 1


def write_pid_and_sleep(file: str) -> None:
    Path(file).write_text(str(os.getpid()))
    time.sleep(600)


@pytest.mark.slow
@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_workers_die_with_their_parent(
    signal_number: signal.Signals, code: int, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("one", "two")]
    (tmp_path / "parent.py").write_text(
        "from aragorn.signals import install_handlers; install_handlers()\n"
        "from tests.unit.training.test_experiment import write_pid_and_sleep\n"
        "from aragorn_training.parallel import map_parallel\n"
        f"if __name__ == '__main__': list(map_parallel(write_pid_and_sleep, {[*map(str, files)]}, 2))"
    )
    parent = subprocess.Popen([sys.executable, tmp_path / "parent.py"])
    while not all(file.is_file() and file.read_text() for file in files):
        time.sleep(0.05)
    workers = [psutil.Process(int(file.read_text())) for file in files]
    parent.send_signal(signal_number)
    assert parent.wait() == code
    assert not psutil.wait_procs(workers, timeout=120)[1]
