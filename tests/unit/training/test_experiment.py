"""The engine of all experiments: resumed where it was killed, nothing computed twice, two processes as one, damage repaired."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
import torch

from submission.errors import OutputError, TrainingError
from training.experiment import Experiment, run


class Square(NamedTuple):
    group: str
    number: int


class Found(msgspec.Struct):
    square: int
    threads: int
    process: int


CELLS = [Square("a", 3), Square("b", 1), Square("a", 2), Square("c", 9)]


@dataclass
class Squares(Experiment[Square, Any]):
    """Squares of numbers; appends a line to a log for each that is computed."""

    name, unit, result = "squares", "numbers", Found
    log: Path
    power: int = 2
    fails_at: int = -1

    def key(self, cell: Square) -> object:
        return self.power, cell

    def group(self, cell: Square) -> str:
        return cell.group

    def size(self, cell: Square) -> int:
        return cell.number

    def compute(self, cell: Square) -> Any:
        if cell.number == self.fails_at:
            raise TrainingError(f"{cell.number} learns nothing")
        with self.log.open("a") as stream:
            stream.write(f"{cell.group}{cell.number}\n")
        return Found(cell.number**self.power, torch.get_num_threads(), os.getpid())


class Arrays(Squares):
    name, result = "arrays", np.ndarray

    def compute(self, cell: Square) -> np.ndarray:
        super().compute(cell)
        return np.array([cell.number, np.nan], dtype=np.float32)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.mark.parametrize("processes", [None, 1, 2])
def test_cells_are_computed_by_groups_the_largest_first(tmp_path: Path, log: Path, processes: int | None) -> None:
    threads = torch.get_num_threads()
    found = run(Squares(log), CELLS, tmp_path, processes)
    assert [(cell, one.square) for cell, one in found.items()] == [(cell, cell.number**2) for cell in CELLS]
    lines = log.read_text().split()
    assert sorted(lines) == ["a2", "a3", "b1", "c9"]
    assert lines.index("a3") < lines.index("a2")
    assert (lines == ["c9", "a3", "a2", "b1"]) or processes == 2
    assert {one.threads for one in found.values()} == {threads if processes is None else 1}
    assert (os.getpid() in {one.process for one in found.values()}) == (processes != 2)
    assert found[CELLS[0]].process == found[CELLS[2]].process  # of one group


@pytest.mark.parametrize("processes", [None, 1, 2])
def test_it_resumes_where_it_was_stopped(
    tmp_path: Path, log: Path, processes: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(TrainingError, match=r"^2 learns nothing$"):
        run(Squares(log, fails_at=2), CELLS, tmp_path, processes)
    before = log.read_text().split()
    assert "a3" in before  # kept, though its group was not finished
    assert not list(tmp_path.rglob("*.tmp"))
    with caplog.at_level(logging.INFO):
        found = run(Squares(log), CELLS, tmp_path, processes)
    assert [one.square for one in found.values()] == [9, 1, 4, 81]
    after = log.read_text().split()
    assert sorted(after) == ["a2", "a3", "b1", "c9"]  # none twice
    assert f"squares: {len(before)} of 4 results are kept" in caplog.text
    assert run(Squares(log), CELLS, tmp_path, processes) == found
    assert log.read_text().split() == after


def test_another_key_is_another_result(tmp_path: Path, log: Path) -> None:
    run(Squares(log), CELLS, tmp_path)
    assert [one.square for one in run(Squares(log, power=3), CELLS, tmp_path).values()] == [27, 1, 8, 729]
    assert [one.square for one in run(Squares(log), CELLS[:2], tmp_path).values()] == [9, 1]
    assert len(log.read_text().split()) == 8


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "directory"])
def test_what_is_damaged_is_computed_again(tmp_path: Path, log: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    whole = run(Squares(log), CELLS, tmp_path)
    for file in sorted((tmp_path / "squares-results").iterdir())[:1]:
        content = file.read_bytes()
        file.unlink()
        if damage == "directory":
            file.mkdir()
        else:
            file.write_bytes({"cut": content[:-1], "changed": content[:-1] + b"?", "empty": b""}[damage])
    if damage == "directory":
        with pytest.raises(OutputError):
            run(Squares(log), CELLS, tmp_path)
        return
    again = run(Squares(log), CELLS, tmp_path)
    assert [one.square for one in again.values()] == [one.square for one in whole.values()]
    assert len(log.read_text().split()) == 5
    assert "not as it was written; computed again" in caplog.text


def test_arrays_come_back_bit_by_bit(tmp_path: Path, log: Path) -> None:
    for _ in range(2):
        found = run(Arrays(log), CELLS, tmp_path)
        for cell, array in found.items():
            assert array.dtype == np.float32
            assert array.tobytes() == np.array([cell.number, np.nan], np.float32).tobytes()
    assert len(log.read_text().split()) == 4
