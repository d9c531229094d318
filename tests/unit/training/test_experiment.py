"""Tests of experiments: resumption, caching, repair of damaged results, and termination of workers."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
import torch

from submission.errors import OutputError, TrainingError
from submission.paths import PROJECT_DIR
from training.experiment import Experiment, run_experiment
from training.parallel import default_process_count, map_parallel


class Square(NamedTuple):
    group: str
    value: int


class SquareResult(msgspec.Struct):
    square: int
    threads: int
    process: int


CELLS = [Square("a", 3), Square("b", 1), Square("a", 2), Square("c", 9)]


@dataclass
class Squares(Experiment[Square, Any]):
    """An experiment that squares numbers and logs each computation."""

    name, unit, result_type = "squares", "numbers", SquareResult
    log: Path
    power: int = 2
    fails_at: int = -1

    def cache_key(self, cell: Square) -> object:
        return self.power, cell

    def group(self, cell: Square) -> str:
        return cell.group

    def cost(self, cell: Square) -> int:
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
        super().compute(cell)
        return np.array([cell.value, np.nan], dtype=np.float32)


@pytest.mark.parametrize("processes", [None, 1, 2])
def test_experiment_runs_largest_groups_first_and_resumes(
    tmp_path: Path, processes: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    log, threads = tmp_path / "log", torch.get_num_threads()
    results = run_experiment(Squares(log), CELLS, tmp_path, processes)
    assert [(cell, result.square) for cell, result in results.items()] == [(cell, cell.value**2) for cell in CELLS]
    lines = log.read_text().split()
    assert sorted(lines) == ["a2", "a3", "b1", "c9"]
    assert lines.index("a3") < lines.index("a2")
    assert (lines == ["c9", "a3", "a2", "b1"]) or processes == 2
    assert {result.threads for result in results.values()} == {threads if processes is None else 1}
    assert (os.getpid() in {result.process for result in results.values()}) == (processes != 2)
    assert results[CELLS[0]].process == results[CELLS[2]].process  # same group

    work_dir, log = tmp_path / "resumed", tmp_path / "resumed.log"
    with pytest.raises(TrainingError, match=r"^2 learns nothing$"):
        run_experiment(Squares(log, fails_at=2), CELLS, work_dir, processes)
    before = log.read_text().split()
    assert "a3" in before  # cached although its group was not finished
    assert not list(work_dir.rglob("*.tmp"))
    with caplog.at_level(logging.INFO):
        results = run_experiment(Squares(log), CELLS, work_dir, processes)
    assert [result.square for result in results.values()] == [9, 1, 4, 81]
    after = log.read_text().split()
    assert sorted(after) == ["a2", "a3", "b1", "c9"]  # none is computed twice
    assert f"squares: {len(before)} of 4 results cached" in caplog.text
    assert run_experiment(Squares(log), CELLS, work_dir, processes) == results
    assert log.read_text().split() == after


def test_changed_key_recomputes_and_arrays_round_trip(tmp_path: Path) -> None:
    log = tmp_path / "log"
    run_experiment(Squares(log), CELLS, tmp_path)
    assert [result.square for result in run_experiment(Squares(log, power=3), CELLS, tmp_path).values()] == [27, 1, 8, 729]
    assert [result.square for result in run_experiment(Squares(log), CELLS[:2], tmp_path).values()] == [9, 1]
    assert len(log.read_text().split()) == 8
    for _ in range(2):
        for cell, array in run_experiment(Arrays(log), CELLS, tmp_path).items():
            assert array.dtype == np.float32
            assert array.tobytes() == np.array([cell.value, np.nan], np.float32).tobytes()
    assert len(log.read_text().split()) == 8 + 4


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_damaged_results_are_recomputed(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    log = tmp_path / "log"
    complete = run_experiment(Squares(log), CELLS, tmp_path)
    file = min((tmp_path / "squares-results").iterdir())
    content = file.read_bytes()
    file.write_bytes({"cut": content[:-1], "changed": content[:-1] + b"?", "empty": b""}[damage])
    rebuilt = run_experiment(Squares(log), CELLS, tmp_path)
    assert [result.square for result in rebuilt.values()] == [result.square for result in complete.values()]
    assert len(log.read_text().split()) == 5
    assert "checksum mismatch, rebuilding" in caplog.text
    file.unlink()
    file.mkdir()
    with pytest.raises(OutputError):
        run_experiment(Squares(log), CELLS, tmp_path)


def square_in_process(value: int) -> tuple[int, int, int]:
    return value * value, torch.get_num_threads(), os.getpid()


def write_pid_and_sleep(file: str) -> None:
    Path(file).write_text(str(os.getpid()))
    time.sleep(600)


def test_parallel_tasks_use_one_thread_and_must_pickle() -> None:
    threads = torch.get_num_threads()
    local = dict(map_parallel(square_in_process, [3, 1, 2], 1))
    assert local == {value: (value * value, 1, os.getpid()) for value in (3, 1, 2)}
    assert torch.get_num_threads() == threads
    assert default_process_count(torch.device("cuda")) == 1
    assert 1 <= default_process_count(torch.device("cpu")) <= len(os.sched_getaffinity(0))  # a container may have fewer
    with pytest.raises((TypeError, AttributeError), match="pickle"):
        list(map_parallel(square_in_process, [lambda: 0, lambda: 1, lambda: 2], 2))  # type: ignore[list-item]


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_die_with_their_parent(signal_number: signal.Signals, tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("one", "two")]
    code = (
        "from submission.signals import install_handlers; install_handlers()\n"
        "from tests.unit.training.test_experiment import write_pid_and_sleep\n"
        "from training.parallel import map_parallel\n"
        f"if __name__ == '__main__': list(map_parallel(write_pid_and_sleep, {files}, 2))"
    )
    (tmp_path / "parent.py").write_text(code)
    parent = subprocess.Popen([sys.executable, tmp_path / "parent.py"], env=os.environ | {"PYTHONPATH": str(PROJECT_DIR)})
    wait_until(lambda: all(Path(file).is_file() and Path(file).read_text() for file in files))
    workers = [int(Path(file).read_text()) for file in files]
    parent.send_signal(signal_number)
    assert parent.wait() == (143 if signal_number == signal.SIGTERM else -signal_number)
    wait_until(lambda: not any(is_running(pid) for pid in workers))


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("timed out after a minute")
