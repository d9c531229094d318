"""End-to-end tests of tuning a lexical system on a grid."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from submission.retrieval.lexical import RM3, Dirichlet, LexicalParameters
from submission.storage.checkpoint_directory import read_config
from submission.systems.execution import Execution
from tests.conftest import count_colours
from tests.endtoend.conftest import AssertFails, Capture, Command
from training.__main__ import main
from training.paths import GRIDS
from training.tuning import grid as grid_search

GRID = """
[index]
stemmer = "none"
[model]
name = "dirichlet"
mu = [1, 200, 5000]
[expansion]
most_df = 1.0
terms = [2, 6]
original = [0.5, 1.0]
"""
MEASURE = "nDCG@5 all"


@pytest.fixture
def tune(corpus_with_topics: Path, tmp_path: Path, qrels_files: list[Path]) -> Command:
    """Return the command that tunes on the grid."""
    (tmp_path / "mine.toml").write_text(GRID)

    def command(output: str = "mine", files: list[Path] = qrels_files, *flags: str) -> list[str]:
        qrels = [flag for file in files for flag in ("--qrels", str(file))]
        paths = ["-i", str(corpus_with_topics), "-o", str(tmp_path / output), "--work-dir", str(tmp_path / "tuning")]
        return ["tune", str(tmp_path / "mine.toml"), *qrels, *paths, *flags]

    return command


def test_tune_saves_the_best_point_and_reuses_cached_points(
    tune: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert main(tune()) == 0
    table, metrics = pd.read_csv(tmp_path / "mine" / "grid.csv"), json.loads((tmp_path / "mine" / "metrics.json").read_text())
    assert table[["model.mu", "expansion.terms", "expansion.original"]].to_numpy().tolist() == [
        [mu, terms, original] for mu in (1, 200, 5000) for terms in (2, 6) for original in (0.5, 1.0)
    ]
    assert table[MEASURE].nunique() > 2
    best = table.sort_values([MEASURE, "MAP all"], ascending=False, kind="stable").iloc[0]
    parameters = read_config(tmp_path / "mine", LexicalParameters)
    assert parameters.model == Dirichlet(best["model.mu"])
    assert parameters.expansion == RM3(10, int(best["expansion.terms"]), best["expansion.original"], max_df_ratio=1.0)
    assert metrics["in-sample"][MEASURE] == pytest.approx(best[MEASURE], abs=1e-4)
    assert (metrics["topics"], metrics["points"], len(metrics["folds"])) == (3, 12, 2)
    assert metrics["cross-validated"][MEASURE] <= metrics["in-sample"][MEASURE]
    assert count_colours((tmp_path / "mine" / "grid.png").read_bytes()) > 20
    assert f"{best[MEASURE]:.4f}" in capsys.readouterr().out
    (tmp_path / "mine.toml").write_text(GRID.replace("5000]", "5000, 9000]"))
    rank_at_point, models = grid_search.rank_at_point, []

    def record(point: LexicalParameters, execution: Execution) -> pd.DataFrame:
        models.append(point.model)
        return rank_at_point(point, execution)

    monkeypatch.setattr(grid_search, "rank_at_point", record)
    assert main(tune("wider")) == 0
    assert models == [Dirichlet(9000)] * 4
    wider = (tmp_path / "wider" / "grid.csv").read_text()
    assert wider.startswith((tmp_path / "mine" / "grid.csv").read_text())


def test_folds_are_files_or_five_random_folds() -> None:
    topics = [str(n) for n in range(12)]
    assert grid_search._assign_folds(topics, [{"1", "3"}, set(topics) - {"1", "3"}]).tolist() == [1, 0, 1, 0] + [1] * 8
    folds = grid_search._assign_folds(topics, [set(topics)])
    assert sorted(np.bincount(folds).tolist()) == [2, 2, 2, 3, 3]
    assert folds.tolist() == grid_search._assign_folds(topics, [set(topics)]).tolist()


def test_best_point_breaks_ties_by_map_and_order() -> None:
    values = np.array([[[0.2, 0.9]], [[0.5, 0.1]], [[0.5, 0.3]], [[0.5, 0.3]]])
    assert grid_search.find_best_point(values) == 2


def test_cross_validation_selects_on_the_other_folds(tune: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.zeros((12, 3, len(grid_search.STORED_MEASURES)))
    values[4, 0], values[7, 1:] = 1.0, 1.0  # point 4 is best on the first file's topic, point 7 on the second's
    monkeypatch.setattr(grid_search, "evaluate_grid", lambda *_: values)
    assert main(tune()) == 0
    metrics = json.loads((tmp_path / "mine" / "metrics.json").read_text())
    assert metrics["cross-validated"] == dict.fromkeys(grid_search.SELECTION_MEASURES, 0.0)
    assert [fold["model.mu"] for fold in metrics["folds"]] == [200, 200]
    assert [fold["expansion.terms"] for fold in metrics["folds"]] == [6, 2]


def test_tune_rejects_bad_grids_and_judgments(
    tune: Command, qrels_files: list[Path], tmp_path: Path, assert_fails: AssertFails
) -> None:
    assert_fails(2, "did you mean 'dirichlet'?", "tune", "dirichlett", "--qrels", qrels_files[0], "-i", "in", "-o", "out")
    same_name = "duplicate qrels name 'first'; name each file with NAME=FILE"
    assert_fails(2, same_name, *tune("mine", [qrels_files[0], qrels_files[0]]))
    duplicate = "judges documents that another qrels file also judges; remove the duplicates"
    assert_fails(3, duplicate, *tune("mine", [qrels_files[0], f"again={qrels_files[0]}"]))
    for text, message in (
        ("[model]\nname = 'bm26'", "bm26"),
        ("[model]\nname = 'bm25'\nk4 = [1]", "k4"),
        ("[model", "not a valid grid"),
        ("model = 3", "not a valid grid"),
        ("[index]\nstemmer = 'snowball'\n[model]\nname = 'bm25'", "snowball"),
    ):
        (tmp_path / "mine.toml").write_text(text)
        assert_fails(2, message, *tune())
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("file", sorted(GRIDS.glob("*.toml")), ids=lambda file: file.stem)
def test_shipped_grids_are_valid(file: Path) -> None:
    sizes = {"bm25_arguments": 28, "dirichlet": 40, "bm25_rm3": 280, "dirichlet_rm3": 140, "bm25_rm3_thesis": 140}
    grid = grid_search.load_grid(file.stem)
    plain_name = file.stem.removeprefix("deepct_").removeprefix("targer_").removesuffix("_thesis")
    assert len(grid.points) == sizes.get(file.stem, sizes[plain_name])
    assert len({point.fingerprint for point in grid.points}) == len(grid.points)
