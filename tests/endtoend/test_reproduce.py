"""Test `reproduce`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.conftest import update_hash
from tests.endtoend.conftest import AssertFails, Capture, Log
from training.__main__ import main
from training.cli.reproduce import compare_metrics


def test_reproduce_from_the_corpus(
    corpus: Path,
    work_dir: Path,
    write_recipe: Callable[..., str],
    tmp_path: Path,
    assert_fails: AssertFails,
    capsys: Capture,
    caplog: Log,
) -> None:
    stored = tmp_path / "stored"
    assert main(["fit", write_recipe(), "--work-dir", str(work_dir), "-o", str(stored / "mine")]) == 0
    reproduce = ["reproduce", write_recipe(), "--checkpoints", str(stored), "--work-dir"]
    command = [*reproduce, str(tmp_path / "new"), "-i", str(corpus)]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert out.count("OK") == 3
    assert "weights: identical" in out
    assert "Recipe has changed" not in caplog.text
    other_corpus = Path(shutil.copytree(corpus, tmp_path / "other"))
    (other_corpus / "args-me.json").write_text((other_corpus / "args-me.json").read_text() + "\n")
    assert main([*reproduce, str(tmp_path / "from other corpus"), "-i", str(other_corpus)]) == 0
    assert "Training data differ from those of the stored checkpoint: args-me.json" in caplog.text
    increase_stored_map(stored / "mine", 1.0)
    capsys.readouterr()
    assert main(command) == 0
    out = capsys.readouterr().out
    assert (out.count("OK"), out.count("near")) == (2, 1)
    increase_stored_map(stored / "mine", 2.0)
    assert_fails(8, "mine: not reproduced", *command)
    (stored / "mine" / "metrics.json").write_text("{}")
    assert main(command) == 4


def test_reproduce_an_ensemble(corpus: Path, all_checkpoints_dir: Path, tmp_path: Path, capsys: Capture) -> None:
    flags = [
        "-i",
        str(corpus),
        "--work-dir",
        str(tmp_path / "new"),
        "--checkpoints",
        str(all_checkpoints_dir),
        "--device",
        "cpu",
    ]
    assert main(["reproduce", "ensemble", *flags]) == 0
    assert "OK" in capsys.readouterr().out


def test_reproduce_without_checkpoint_fails(corpus: Path, tmp_path: Path, assert_fails: AssertFails) -> None:
    flags = ["-i", corpus, "--work-dir", tmp_path, "--checkpoints", tmp_path]
    assert_fails(4, "checkpoint not found; available:", "reproduce", "knrm", *flags)


def increase_stored_map(checkpoint: Path, points: float) -> None:
    """Increase the stored MAP@20 by some points."""
    metrics = json.loads((checkpoint / "metrics.json").read_text())
    metrics["validation"]["MAP@20"] += points
    (checkpoint / "metrics.json").write_text(json.dumps(metrics))
    update_hash(checkpoint, "metrics.json")


def test_verdicts_depend_on_the_difference() -> None:
    stored = {"validation": {"a": 50.0, "b": 50.0, "c": 50.0, "missing": 50.0}}
    recomputed = {"validation": {"a": 50.09, "b": 48.1, "c": 52.1}}
    assert compare_metrics(stored, recomputed)["verdict"].to_dict() == {"a": "OK", "b": "near", "c": "FAIL", "missing": "FAIL"}
