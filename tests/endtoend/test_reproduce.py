"""A checkpoint made twice."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from training.__main__ import main
from training.reproduce import verdicts


@pytest.fixture
def stored(work: Path, recipe: Callable[..., str], tmp_path: Path) -> Path:
    """A checkpoints directory with a network of a small recipe."""
    assert main(["fit", recipe(), "--work", str(work), "-o", str(tmp_path / "stored" / "mine")]) == 0
    return tmp_path / "stored"


def shift(checkpoint: Path, points: float) -> None:
    """Claim a better MAP@20 than was measured."""
    metrics = json.loads((checkpoint / "metrics.json").read_text())
    metrics["validation"]["MAP@20"] += points
    (checkpoint / "metrics.json").write_text(json.dumps(metrics))
    provenance = json.loads((checkpoint / "provenance.json").read_text())
    provenance["files"]["metrics.json"] = hashlib.sha256((checkpoint / "metrics.json").read_bytes()).hexdigest()
    (checkpoint / "provenance.json").write_text(json.dumps(provenance))


def test_from_the_corpus_to_the_same_bytes_and_verdicts(
    corpus: Path,
    stored: Path,
    recipe: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    command = ["reproduce", recipe(), "-i", str(corpus), "--work", str(tmp_path / "new"), "--checkpoints", str(stored)]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert out.count("OK") == 3
    assert "weights: the same bytes" in out
    assert "has changed since" not in caplog.text
    shift(stored / "mine", 1.0)
    assert main(command) == 0
    out = capsys.readouterr().out
    assert (out.count("OK"), out.count("near")) == (2, 1)
    shift(stored / "mine", 2.0)
    assert main(command) == 8
    assert "mine: not reproduced" in capsys.readouterr().err
    (stored / "mine" / "metrics.json").write_text("{}")
    assert main(command) == 4


def test_another_corpus_is_told(
    corpus: Path,
    stored: Path,
    recipe: Callable[..., str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = Path(shutil.copytree(corpus, tmp_path / "other"))
    (other / "args-me.json").write_text((other / "args-me.json").read_text() + "\n")
    command = ["reproduce", recipe(), "-i", str(other), "--work", str(tmp_path / "new"), "--checkpoints", str(stored)]
    assert main(command) == 0
    assert "the data are not those that the stored checkpoint was trained on (args-me.json)" in caplog.text


def test_the_ensemble(corpus: Path, all_checkpoints: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "reproduce",
        "ensemble",
        "-i",
        str(corpus),
        "--work",
        str(tmp_path / "new"),
        "--checkpoints",
        str(all_checkpoints),
    ]
    assert main([*command, "--device", "cpu"]) == 0
    assert "OK" in capsys.readouterr().out


def test_nothing_to_compare_with(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["reproduce", "knrm", "-i", str(corpus), "--work", str(tmp_path), "--checkpoints", str(tmp_path)]
    assert main(command) == 4
    assert "no such checkpoint; present:" in capsys.readouterr().err


def test_verdicts() -> None:
    stored = {"validation": {"a": 50.0, "b": 50.0, "c": 50.0, "lost": 50.0}}
    here = {"validation": {"a": 50.09, "b": 48.1, "c": 52.1}}
    table = verdicts(stored, here)
    assert table["verdict"].to_dict() == {"a": "OK", "b": "near", "c": "FAIL", "lost": "FAIL"}
    assert isinstance(table, pd.DataFrame)
