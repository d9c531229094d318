"""Tests of the comparison of new checkpoints with stored ones."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from aragorn.paths import CHECKPOINT_DIR
from aragorn_training.compare import compare_checkpoints, compare_metrics


def test_verdicts_depend_on_the_difference() -> None:
    stored = {"validation": {"a": 50.0, "b": 50.0, "c": 50.0, "missing": 50.0}}
    recomputed = {"validation": {"a": 50.09, "b": 48.1, "c": 52.1}}
    assert compare_metrics(stored, recomputed)["verdict"].to_dict() == {
        "a": "OK",
        "b": "near",
        "c": "FAIL",
        "missing": "FAIL",
    }


def change(file: Path, *keys: str, value: Any) -> None:
    """Change a value in a JSON file."""
    document = json.loads(file.read_text())
    table = document
    for key in keys[:-1]:
        table = table[key]
    table[keys[-1]] = value
    file.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("file", "keys", "value", "verdict"),
    [
        ("metrics.json", ("validation", "MAP@20"), 1.0, "FAIL"),
        ("provenance.json", ("recipe", "seed"), 7, "other recipe"),
        ("provenance.json", ("training_data", "input"), {"other.json": "0" * 64}, "other data"),
        ("provenance.json", ("recipe", "later"), {}, "OK"),  # settings that were added since
        (None, (), None, "not stored"),
    ],
)
def test_only_checkpoints_of_equal_data_and_recipes_are_compared(
    file: str | None, keys: tuple[str, ...], value: Any, verdict: str, tmp_path: Path
) -> None:
    for folder in ("new", "stored"):
        shutil.copytree(CHECKPOINT_DIR / "knrm", tmp_path / folder / "knrm")
    if file is None:
        shutil.rmtree(tmp_path / "stored")
    else:
        changed = "new" if verdict == "OK" else "stored"
        change(tmp_path / changed / "knrm" / file, *keys, value=value)
    table = compare_checkpoints({"knrm": 5.0}, tmp_path / "new", tmp_path / "stored")
    row = table.set_index("metric").loc["MAP@20"]
    assert (row["checkpoint"], row["verdict"], row["seconds"]) == ("knrm", verdict, 5.0)
    assert {*table["verdict"]} <= {"OK", verdict}
    validation = json.loads((CHECKPOINT_DIR / "knrm" / "metrics.json").read_text())["validation"]
    assert row["reproduced"] == validation["MAP@20"]
