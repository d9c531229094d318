"""Tests of cached and parallel calls: order and caching of results, and the end of workers.

Workers import this module, so it does not import the conftest module, which takes seconds.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import psutil
import pytest
import torch

from aragorn.errors import TrainingError
from aragorn_training.mapping import get_default_process_count, map_cached


class Square(msgspec.Struct):
    square: int
    threads: int
    process: int


NUMBERS = [3, 1, 2, 9]


def square(log, fails_at, value):
    """Square a value and log the call; raise TrainingError at `fails_at`."""
    if value == fails_at:
        raise TrainingError(f"{value} learns nothing")
    with log.open("a") as stream:
        stream.write(f"{value}\n")
    return Square(value**2, torch.get_num_threads(), os.getpid())


def square_array(log, value):
    return np.array([square(log, -1, value).square, np.nan], dtype=np.float32)


@pytest.mark.parametrize("processes", [None, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_results_are_in_order_and_calls_resume_after_an_error(tmp_path, processes, caplog):
    def square_all(fails_at):
        settings = {"name": "squares", "key": "key", "result_type": Square}
        function = partial(square, tmp_path / "log", fails_at)
        return map_cached(function, NUMBERS, tmp_path, n_processes=processes, **settings)

    threads = torch.get_num_threads()
    caplog.set_level(logging.INFO)
    with pytest.raises(TrainingError, match=r"^2 learns nothing$"):
        square_all(fails_at=2)
    before = (tmp_path / "log").read_text().split()
    assert {"3", "1"} <= {*before}
    results = square_all(fails_at=-1)
    assert {value: result.square for value, result in results.items()} == {
        3: 9, 1: 1, 2: 4, 9: 81
    }  # fmt: skip
    assert [*results] == NUMBERS
    assert f"squares: {len(before)} of 4 results cached" in caplog.text
    assert sorted((tmp_path / "log").read_text().split()) == ["1", "2", "3", "9"]
    assert {result.threads for result in results.values()} == {threads if processes is None else 1}
    assert (os.getpid() in {result.process for result in results.values()}) == (processes != 2)


def test_results_depend_on_key_and_argument(tmp_path):
    for key, n_calls in (("a", 4), ("b", 8), ("a", 8)):
        function = partial(square_array, tmp_path / "log")
        settings = {"name": "arrays", "key": key, "result_type": np.ndarray}
        arrays = map_cached(function, NUMBERS, tmp_path, **settings)
        expected = [np.array([value**2, np.nan], np.float32).tobytes() for value in NUMBERS]
        assert [array.tobytes() for array in arrays.values()] == expected
        assert len((tmp_path / "log").read_text().split()) == n_calls
    assert get_default_process_count("cuda") == 1


def write_pid_and_sleep(file):
    Path(file).write_text(str(os.getpid()))
    time.sleep(600)


@pytest.mark.slow
@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_workers_die_with_their_parent(signal_number, code, tmp_path):
    files = [tmp_path / name for name in ("one", "two")]
    (tmp_path / "parent.py").write_text(
        "from aragorn.signals import install_handlers; install_handlers()\n"
        "from tests.unit.training.test_mapping import write_pid_and_sleep\n"
        "from aragorn_training.mapping import map_parallel\n"
        f"if __name__ == '__main__': list(map_parallel(write_pid_and_sleep, {[*map(str, files)]}, 2))"
    )
    parent = subprocess.Popen([sys.executable, tmp_path / "parent.py"])
    while not all(file.is_file() and file.read_text() for file in files):
        time.sleep(0.05)
    workers = [psutil.Process(int(file.read_text())) for file in files]
    parent.send_signal(signal_number)
    assert parent.wait() == code
    assert not psutil.wait_procs(workers, timeout=120)[1]
