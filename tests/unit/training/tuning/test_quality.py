"""Tests of tuning quality re-ranking: grid, selection, checkpoint and cross-validation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from submission.errors import UsageError
from submission.fusion.quality import QualityInterpolation
from submission.rankings import DEFAULT_DEPTH, truncate_rankings
from submission.storage.checkpoint_directory import read_config
from submission.systems.catalogue import get_system
from submission.systems.execution import Execution
from submission.systems.lexical import LexicalStage
from tests.conftest import count_colours
from tests.unit.training.data.quality_files import write_quality
from training.data.datasets import webis_argquality
from training.data.quality import prepare_quality
from training.evaluation.evaluate import evaluate_run
from training.evaluation.qrels import read_qrels
from training.tuning import quality as tuning
from training.tuning.grid import SELECTION_MEASURES
from training.tuning.quality import WEBIS_MEASURES, tune_quality
from training.tuning.quality_grid import POINTS, RELEVANCE_ONLY

DIRICHLET = LexicalStage("dirichlet")
SYSTEM = get_system("tfr_bert")


@pytest.fixture
def execution(
    corpus_with_topics: Path, checkpoints_copy: Path, tmp_path: Path, make_execution: Callable[..., Execution]
) -> Execution:
    execution = make_execution(corpus_with_topics, checkpoints=checkpoints_copy)
    prepare_quality(write_quality(tmp_path / "data"), ["webis"], execution.working_directory.directory)
    return execution


@pytest.fixture
def qrels(execution: Execution, tmp_path: Path) -> Path:
    """Judge every third document of each ranking as relevant."""
    ranking = execution.get_ranking(DIRICHLET)
    lines = [f"{row.qid} 0 {row.docno} {int(row.rank % 3 == 0)}\n" for row in ranking.itertuples()]
    (tmp_path / "synthetic.qrels").write_text("".join(lines))
    return tmp_path / "synthetic.qrels"


def test_tune_quality_saves_the_best_point(execution: Execution, qrels: Path, checkpoints_copy: Path) -> None:
    output = checkpoints_copy / "quality"
    table = tune_quality(SYSTEM, qrels, execution, output)
    grid, metrics = pd.read_csv(output / "grid.csv"), json.loads((output / "metrics.json").read_text())
    assert grid[["documents", "weight"]].to_numpy().tolist() == [[point.depth, point.weight] for point in POINTS]
    assert grid.to_numpy() == pytest.approx(table.to_numpy(), abs=1e-6)
    point = read_config(output, QualityInterpolation)
    [row] = grid[(grid["documents"] == point.depth) & (grid["weight"] == point.weight)].to_dict("records")
    for stage, grid_row in ((DIRICHLET, grid.iloc[RELEVANCE_ONLY]), (SYSTEM.stage, row)):  # equal to the systems' rankings
        by_topic = evaluate_run(truncate_rankings(execution.get_ranking(stage), DEFAULT_DEPTH), read_qrels(qrels))
        means = by_topic[list(SELECTION_MEASURES)].mean()
        assert [grid_row[name] for name in SELECTION_MEASURES] == pytest.approx(means.tolist(), abs=1e-6)
    for name in (SELECTION_MEASURES[0], WEBIS_MEASURES[0]):
        assert row[name] >= grid.iloc[RELEVANCE_ONLY][name] - 0.01
    allowed = grid[
        (grid[SELECTION_MEASURES[0]] >= grid.iloc[RELEVANCE_ONLY][SELECTION_MEASURES[0]] - 0.01)
        & (grid[WEBIS_MEASURES[0]] >= grid.iloc[RELEVANCE_ONLY][WEBIS_MEASURES[0]] - 0.01)
    ]
    assert row[WEBIS_MEASURES[2]] == allowed[WEBIS_MEASURES[2]].max()
    assert metrics["topics"] == {"synthetic.qrels": 3, "Webis-ArgQuality-20": 6}
    assert len(metrics["folds"]) == 5
    for name in (*SELECTION_MEASURES, *WEBIS_MEASURES):
        assert metrics["in-sample"][name] == pytest.approx(row[name], abs=1e-4)
        gain = metrics["cross-validated"][name] - metrics["original order"][name]
        assert metrics["gain"][name]["mean"] == pytest.approx(gain, abs=2e-4)
        assert metrics["gain"][name]["ci_low"] <= metrics["gain"][name]["mean"] <= metrics["gain"][name]["ci_high"]
    assert count_colours((output / "grid.png").read_bytes()) > 20
    assert point.formula() in (output / "README.md").read_text()
    inputs = json.loads((output / "provenance.json").read_text())["training_data"]["input"]
    assert {"synthetic.qrels", *(file.name for file in webis_argquality.list_files(Path()))} < set(inputs)


def test_folds_keep_shared_questions_together(
    execution: Execution, qrels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question of both collections is tested in one fold; a system without re-ranking is rejected."""
    question = execution.topics["query"].iloc[0]
    judged = tuning.load_webis_judgments(execution.working_directory.directory)
    judged.loc[judged["qid"] == "1", "topic"] = f"{question}?".upper()
    monkeypatch.setattr(tuning, "load_webis_judgments", lambda work: judged)
    values, qids = np.random.default_rng(0).random((3, len(POINTS), len(SELECTION_MEASURES))), execution.topics["qid"].tolist()
    monkeypatch.setattr(tuning, "_evaluate_touche_topics", lambda *_: (values, qids))
    select_point = tuning._select_point
    sizes: list[tuple[int, int]] = []

    def record(touche_values: np.ndarray, webis_values: np.ndarray) -> int:
        sizes.append((len(touche_values), len(webis_values)))
        return select_point(touche_values, webis_values)

    monkeypatch.setattr(tuning, "_select_point", record)
    tune_quality(SYSTEM, qrels, execution, tmp_path / "quality")
    assert sizes[-1] == (3, 6)
    assert sum(3 + 6 - touche - webis for touche, webis in sizes[:-1]) == 9  # each is tested once
    assert any(touche < 3 and webis < 6 for touche, webis in sizes[:-1])  # the shared question
    with pytest.raises(UsageError, match="bm25 does not re-rank by quality"):
        tune_quality(get_system("bm25"), qrels, execution, tmp_path / "quality")
