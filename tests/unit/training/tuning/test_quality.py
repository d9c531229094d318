"""The point at which a system re-orders: what is tried, chosen, said of it, and that others choose for a topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from submission.data.qrels import read_qrels
from submission.errors import UsageError
from submission.fusion.quality import QualityInterpolation
from submission.rankings import truncate_rankings
from submission.storage.checkpoint_directory import read_config
from submission.systems.catalogue import get_system
from submission.systems.execution import Execution
from submission.systems.lexical import LexicalStage
from tests.conftest import count_colours
from tests.unit.training.data.quality_files import write_quality
from training.data.datasets import webis_argquality
from training.data.quality import prepare_quality
from training.evaluation.evaluate import evaluate_run
from training.tuning import quality as module
from training.tuning.quality import DEFAULT_DEPTH, SELECTION_MEASURES, WEBIS_MEASURES, tune_quality
from training.tuning.quality_grid import ORIGINAL_ORDER, POINTS

DIRICHLET = LexicalStage("dirichlet")
SYSTEM = get_system("tfr_bert")


@pytest.fixture
def execution(
    corpus_with_topics: Path, checkpoints_copy: Path, tmp_path: Path, make_execution: Callable[..., Execution]
) -> Execution:
    made = make_execution(corpus_with_topics, checkpoints=checkpoints_copy)
    prepare_quality(write_quality(tmp_path / "data"), ["webis"], made.working_directory.directory)
    return made


@pytest.fixture
def qrels(execution: Execution, tmp_path: Path) -> Path:
    """Of each topic's list every third document is relevant."""
    listed = execution.get_ranking(DIRICHLET)
    lines = [f"{row.qid} 0 {row.docno} {int(row.rank % 3 == 0)}\n" for row in listed.itertuples()]
    (tmp_path / "made.qrels").write_text("".join(lines))
    return tmp_path / "made.qrels"


def test_the_best_point_is_written(execution: Execution, qrels: Path, checkpoints_copy: Path) -> None:
    output = checkpoints_copy / "quality"
    table = tune_quality(SYSTEM, qrels, execution, output)
    grid, metrics = pd.read_csv(output / "grid.csv"), json.loads((output / "metrics.json").read_text())
    assert grid[["documents", "weight"]].to_numpy().tolist() == [[point.depth, point.weight] for point in POINTS]
    assert grid.to_numpy() == pytest.approx(table.to_numpy(), abs=1e-6)
    point = read_config(output, QualityInterpolation)
    [row] = grid[(grid["documents"] == point.depth) & (grid["weight"] == point.weight)].to_dict("records")
    for stage, found in ((DIRICHLET, grid.iloc[ORIGINAL_ORDER]), (SYSTEM.stage, row)):  # as the systems themselves list it
        means = evaluate_run(truncate_rankings(execution.get_ranking(stage), DEFAULT_DEPTH), read_qrels(qrels))[
            list(SELECTION_MEASURES)
        ].mean()
        assert [found[name] for name in SELECTION_MEASURES] == pytest.approx(means.tolist(), abs=1e-6)
    for name in (SELECTION_MEASURES[0], WEBIS_MEASURES[0]):
        assert row[name] >= grid.iloc[ORIGINAL_ORDER][name] - 0.01
    allowed = grid[
        (grid[SELECTION_MEASURES[0]] >= grid.iloc[ORIGINAL_ORDER][SELECTION_MEASURES[0]] - 0.01)
        & (grid[WEBIS_MEASURES[0]] >= grid.iloc[ORIGINAL_ORDER][WEBIS_MEASURES[0]] - 0.01)
    ]
    assert row[WEBIS_MEASURES[2]] == allowed[WEBIS_MEASURES[2]].max()
    assert metrics["topics"] == {"made.qrels": 3, "Webis-ArgQuality-20": 6}
    assert len(metrics["folds"]) == 5
    for name in (*SELECTION_MEASURES, *WEBIS_MEASURES):
        assert metrics["in-sample"][name] == pytest.approx(row[name], abs=1e-4)
        gained = metrics["cross-validated"][name] - metrics["original order"][name]
        assert metrics["gain"][name]["mean"] == pytest.approx(gained, abs=2e-4)
        assert metrics["gain"][name]["ci_low"] <= metrics["gain"][name]["mean"] <= metrics["gain"][name]["ci_high"]
    assert count_colours((output / "grid.png").read_bytes()) > 20
    assert point.formula() in (output / "README.md").read_text()
    told = json.loads((output / "provenance.json").read_text())["training_data"]["input"]
    assert {"made.qrels", *(file.name for file in webis_argquality.list_files(Path()))} < set(told)


def test_no_question_chooses_for_itself_and_a_system_that_re_orders_nothing_has_no_point(
    execution: Execution, qrels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a topic of 2020 says is not asked where the same question of Webis tests."""
    asked = execution.topics["query"].iloc[0]
    judged = module.load_webis_judgments(execution.working_directory.directory)
    judged.loc[judged["qid"] == "1", "topic"] = f"{asked}?".upper()
    monkeypatch.setattr(module, "judgments", lambda work: judged)
    values, qids = np.random.default_rng(0).random((3, len(POINTS), len(SELECTION_MEASURES))), execution.topics["qid"].tolist()
    monkeypatch.setattr(module, "_evaluate_touche_topics", lambda *arguments: (values, qids))
    chosen = module._select_point
    seen: list[tuple[int, int]] = []

    def counted(on_topics: np.ndarray, on_webis: np.ndarray) -> int:
        seen.append((len(on_topics), len(on_webis)))
        return chosen(on_topics, on_webis)

    monkeypatch.setattr(module, "_select_point", counted)
    tune_quality(SYSTEM, qrels, execution, tmp_path / "quality")
    assert seen[-1] == (3, 6)
    assert sum(3 + 6 - sum(sizes) for sizes in seen[:-1]) == 9  # each tests once
    assert any(3 - here and 6 - there for here, there in seen[:-1])  # the question that both have
    with pytest.raises(UsageError, match="bm25 does not re-rank by quality"):
        tune_quality(get_system("bm25"), qrels, execution, tmp_path / "quality")
