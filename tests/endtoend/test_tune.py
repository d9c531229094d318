"""Tuning: the best point of a grid, what it is worth on other topics."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from submission.retrieval.lexical import RM3, Dirichlet
from submission.retrieval.parameters import LexicalParameters
from submission.storage.checkpoint_directory import read_config
from submission.systems.execution import Execution
from tests.conftest import count_colours
from tests.endtoend.conftest import Capture, Command, Refused
from training.__main__ import main
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
def run(corpus_with_topics: Path, tmp_path: Path, judged: list[Path]) -> Command:
    """The command that tunes over a grid."""
    (tmp_path / "mine.toml").write_text(GRID)

    def tuned(output: str = "mine", files: list[Path] = judged, *flags: str) -> list[str]:
        qrels = [flag for file in files for flag in ("--qrels", str(file))]
        places = ["-i", str(corpus_with_topics), "-o", str(tmp_path / output), "--work", str(tmp_path / "tuning")]
        return ["tune", str(tmp_path / "mine.toml"), *qrels, *places, *flags]

    return tuned


def test_the_best_point_is_written_and_points_that_are_kept_are_not_searched_again(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert main(run()) == 0
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
    run_of, made = grid_search.rank_at_point, []

    def told(point: LexicalParameters, execution: Execution) -> pd.DataFrame:
        made.append(point.model)
        return run_of(point, execution)

    monkeypatch.setattr(grid_search, "rank_at_point", told)
    assert main(run("wider")) == 0
    assert made == [Dirichlet(9000)] * 4
    wider = (tmp_path / "wider" / "grid.csv").read_text()
    assert wider.startswith((tmp_path / "mine" / "grid.csv").read_text())


def test_folds_are_files_or_fifths_of_topics() -> None:
    topics = [str(number) for number in range(12)]
    assert grid_search._folds(topics, {"a": {"1", "3"}, "b": set(topics) - {"1", "3"}}).tolist() == [1, 0, 1, 0] + [1] * 8
    folds = grid_search._folds(topics, {"a": set(topics)})
    assert sorted(np.bincount(folds).tolist()) == [2, 2, 2, 3, 3]
    assert folds.tolist() == grid_search._folds(topics, {"a": set(topics)}).tolist()


def test_ties_are_decided_by_map_then_the_earlier_point() -> None:
    values = np.array([[[0.2, 0.9]], [[0.5, 0.1]], [[0.5, 0.3]], [[0.5, 0.3]]])
    assert grid_search.best_point(values) == 2


def test_a_fold_is_chosen_without_its_own_topics(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.zeros((12, 3, len(grid_search.STORED_MEASURES)))
    values[4, 0], values[7, 1:] = 1.0, 1.0  # point 4 is best on the first file's topic, point 7 on the second's
    monkeypatch.setattr(grid_search, "evaluate_grid", lambda *_: values)
    assert main(run()) == 0
    metrics = json.loads((tmp_path / "mine" / "metrics.json").read_text())
    assert metrics["cross-validated"] == dict.fromkeys(grid_search.SELECTION_MEASURES, 0.0)
    assert [fold["model.mu"] for fold in metrics["folds"]] == [200, 200]
    assert [fold["expansion.terms"] for fold in metrics["folds"]] == [6, 2]


def test_faulty_grids_and_judgments(run: Command, judged: list[Path], tmp_path: Path, refused: Refused) -> None:
    refused(2, "did you mean 'dirichlet'?", "tune", "dirichlett", "--qrels", judged[0])
    refused(2, "the same name 'first' for several qrels; give each a name with NAME=FILE", *run("mine", [judged[0], judged[0]]))
    twice = "judges documents that another qrels file also judges; remove the duplicates"
    refused(3, twice, *run("mine", [judged[0], f"again={judged[0]}"]))
    for text, words in (
        ("[model]\nname = 'bm26'", "bm26"),
        ("[model]\nname = 'bm25'\nk4 = [1]", "k4"),
        ("[model", "not a valid grid"),
        ("model = 3", "not a valid grid"),
        ("[index]\nstemmer = 'snowball'\n[model]\nname = 'bm25'", "snowball"),
    ):
        (tmp_path / "mine.toml").write_text(text)
        refused(2, words, *run())
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("file", sorted(grid_search.GRIDS.glob("*.toml")), ids=lambda file: file.stem)
def test_the_grids_are_read(file: Path) -> None:
    sizes = {"bm25_arguments": 28, "dirichlet": 40, "bm25_rm3": 280, "dirichlet_rm3": 140, "bm25_rm3_thesis": 140}
    grid = grid_search.load_grid(file.stem)
    assert len(grid.points) == sizes.get(
        file.stem, sizes[file.stem.removeprefix("deepct_").removeprefix("targer_").removesuffix("_thesis")]
    )
    assert len({point.fingerprint for point in grid.points}) == len(grid.points)
