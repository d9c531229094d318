"""How much room is said to be needed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from submission.systems import room
from submission.systems.catalogue import SYSTEMS
from submission.systems.execution import Execution
from submission.systems.room import DOCUMENTS, expected, say_room

Execute = Callable[..., Execution]


def test_what_systems_share_is_counted_once(execute: Execute, make_input: Callable[..., Path], everything: Path) -> None:
    execution = execute(make_input(), checkpoints=everything)

    def of(*names: str) -> float:
        return expected(execution, [SYSTEMS[name].stage for name in names]) - DOCUMENTS

    assert of("bm25", "knrm") == 0  # nothing of the collection but conclusions
    assert of("dirichlet") == of("dirichlet", "bm25") == 2 * 1.0
    assert of("deepct_dirichlet") == pytest.approx(0.5 + 2 * 0.75)
    both = of("deepct_dirichlet", "deepct_bm25_rm3")  # one index or two, of one enrichment
    assert both in (pytest.approx(0.5 + 2 * 0.75), pytest.approx(0.5 + 3 * 0.75))
    assert of("snrm", "dirichlet") == pytest.approx(0.75 + 2 * 1.0)


def test_a_small_disk(
    execute: Execute,
    make_input: Callable[..., Path],
    everything: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    execution = execute(make_input(), checkpoints=everything)
    for free, warned in ((10**9, False), (10, True)):
        monkeypatch.setattr(room.shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        caplog.clear()
        say_room(execution, [SYSTEMS["dirichlet"].stage], execution.work.directory)
        assert "about 0 MB at most; there now: 0 MB" in caplog.text
        assert ("too little room" in caplog.text) == warned


def test_a_damaged_checkpoint_is_said_elsewhere(execute: Execute, make_input: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    assert expected(execute(make_input(), checkpoints=tmp_path / "none"), [SYSTEMS["dirichlet"].stage]) == DOCUMENTS
