"""Tests of `reproduce`: verdicts on networks and ensembles, changed data, and missing checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import update_hash
from tests.endtoend.conftest import AssertFails, Capture, Log
from training.__main__ import main
from training.cli.reproduce import compare_metrics


@pytest.fixture
def reproduce(corpus: Path, work_dir: Path, write_recipe: Callable[..., str], tmp_path: Path) -> list[str]:
    """Train a network as the stored checkpoint, and return the command that reproduces it from the directory `input`."""
    recipe = write_recipe()
    assert main(["fit", recipe, "--work-dir", str(work_dir), "-o", str(tmp_path / "stored" / "mine")]) == 0
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "args-me.json").write_text((corpus / "args-me.json").read_text())
    paths = {"--checkpoints": "stored", "--work-dir": "new", "-i": "input"}
    return ["reproduce", recipe, *(text for flag, name in paths.items() for text in (flag, str(tmp_path / name)))]


def increase_stored_map(checkpoint: Path, points: float) -> None:
    metrics = json.loads((checkpoint / "metrics.json").read_text())
    metrics["validation"]["MAP@20"] += points
    (checkpoint / "metrics.json").write_text(json.dumps(metrics))
    update_hash(checkpoint, "metrics.json")


@pytest.mark.slow
def test_reproduce_compares_with_the_stored_checkpoint(
    reproduce: list[str], tmp_path: Path, assert_fails: AssertFails, capsys: Capture, caplog: Log
) -> None:
    assert main(reproduce) == 0
    out = capsys.readouterr().out
    assert (out.count("OK"), "weights: identical" in out) == (3, True)
    assert "Recipe has changed" not in caplog.text
    increase_stored_map(tmp_path / "stored" / "mine", 1.0)
    assert main(reproduce) == 0
    out = capsys.readouterr().out
    assert (out.count("OK"), out.count("near")) == (2, 1)
    increase_stored_map(tmp_path / "stored" / "mine", 2.0)
    assert_fails(8, "mine: not reproduced", *reproduce)
    with (tmp_path / "input" / "args-me.json").open("a") as file:
        file.write("\n")
    assert_fails(8, "mine: not reproduced", *reproduce, "--work-dir", tmp_path / "changed")
    assert "Training data differ from those of the stored checkpoint: args-me.json" in caplog.text
    (tmp_path / "stored" / "mine" / "metrics.json").write_text("{}")
    assert main(reproduce) == 4


def test_reproduce_an_ensemble(corpus: Path, all_checkpoints_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    paths = ["-i", str(corpus), "--work-dir", str(tmp_path / "new"), "--checkpoints", str(all_checkpoints_dir)]
    assert main(["reproduce", "ensemble", *paths, "--device", "cpu"]) == 0
    assert "OK" in capsys.readouterr().out


def test_verdicts_depend_on_the_difference() -> None:
    stored = {"validation": {"a": 50.0, "b": 50.0, "c": 50.0, "missing": 50.0}}
    recomputed = {"validation": {"a": 50.09, "b": 48.1, "c": 52.1}}
    assert compare_metrics(stored, recomputed)["verdict"].to_dict() == {"a": "OK", "b": "near", "c": "FAIL", "missing": "FAIL"}
