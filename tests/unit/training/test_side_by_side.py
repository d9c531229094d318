"""Parts in processes: what comes back, one thread each, an error, and that no process outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from submission.errors import TrainingError
from submission.paths import ROOT
from training.side_by_side import at_a_time, side_by_side


def looked(part: int) -> tuple[int, int, int]:
    return part * part, torch.get_num_threads(), os.getpid()


def failed(part: int) -> int:
    if part == 1:
        raise TrainingError(f"part {part} learns nothing")
    return part


def slept(file: str) -> None:
    Path(file).write_text(str(os.getpid()))
    time.sleep(600)


def test_every_part_comes_back_from_a_thread_of_its_own() -> None:
    threads = torch.get_num_threads()
    here = dict(side_by_side(looked, [3, 1, 2], 1))
    assert here == {part: (part * part, 1, os.getpid()) for part in (3, 1, 2)}
    assert torch.get_num_threads() == threads
    there = dict(side_by_side(looked, [3, 1, 2, 5], 2))
    assert {part: found[:2] for part, found in there.items()} == {part: (part * part, 1) for part in (3, 1, 2, 5)}
    assert os.getpid() not in {pid for _, _, pid in there.values()}
    assert at_a_time(torch.device("cuda")) == 1
    assert 1 <= at_a_time(torch.device("cpu")) <= len(os.sched_getaffinity(0))  # a container may have a share of them


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_is_the_caller_s(processes: int) -> None:
    with pytest.raises(TrainingError, match=r"^part 1 learns nothing$"):
        list(side_by_side(failed, [0, 1, 2, 3], processes))


def test_parts_that_cannot_be_sent_are_said() -> None:
    with pytest.raises((TypeError, AttributeError), match="pickle"):
        list(side_by_side(looked, [lambda: 0, lambda: 1, lambda: 2], 2))  # type: ignore[list-item]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_its_parent(how: signal.Signals, tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("one", "two")]
    code = (
        "from submission.interrupted import hear; hear()\n"
        "from tests.unit.training.test_side_by_side import slept\n"
        "from training.side_by_side import side_by_side\n"
        f"if __name__ == '__main__': list(side_by_side(slept, {files}, 2))"
    )
    (tmp_path / "begin.py").write_text(code)
    parent = subprocess.Popen([sys.executable, tmp_path / "begin.py"], env=os.environ | {"PYTHONPATH": str(ROOT)})
    until(lambda: all(Path(file).is_file() and Path(file).read_text() for file in files))
    workers = [int(Path(file).read_text()) for file in files]
    parent.send_signal(how)
    assert parent.wait() == (143 if how == signal.SIGTERM else -how)
    until(lambda: not any(alive(pid) for pid in workers))


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def until(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("a minute has gone by")
