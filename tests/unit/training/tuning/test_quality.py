"""Tests of tuning quality re-ranking: grid, selection, checkpoint and cross-validation."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.metrics import ndcg_score

from aragorn.io.qrels import read_qrels
from aragorn.rankings import DEFAULT_DEPTH, truncate_rankings
from aragorn.storage.checkpoint_directory import read_config
from aragorn.systems.catalogue import get_system
from aragorn.systems.lexical import LexicalStage
from aragorn.systems.quality import QualityInterpolation
from aragorn_training.data.datasets import webis_argquality
from aragorn_training.data.quality import Options as QualityOptions
from aragorn_training.data.quality import prepare_quality
from aragorn_training.evaluation.evaluate import evaluate_run
from aragorn_training.tuning import quality as tuning
from aragorn_training.tuning.grid import SELECTION_MEASURES
from tests.unit.training.conftest import write_quality, write_webis

DIRICHLET = LexicalStage("dirichlet")
SYSTEM = get_system("tfr_bert")


@pytest.fixture
def retrieval(corpus_with_topics, checkpoints_copy, tmp_path, make_retrieval):
    retrieval = make_retrieval(corpus_with_topics, checkpoints=checkpoints_copy)
    work_dir = tmp_path / "prepared"
    prepare_quality(QualityOptions(inputs=(write_quality(tmp_path / "data"),), work_dir=work_dir))
    shutil.copytree(work_dir / "quality", retrieval.session.cache.path / "quality")
    return retrieval


@pytest.fixture
def qrels(retrieval, tmp_path):
    """Write qrels in which every third document of each ranking is relevant; return their path."""
    ranking = retrieval.rank(DIRICHLET)
    lines = [f"{row.qid} 0 {row.docno} {int(row.rank % 3 == 0)}\n" for row in ranking.itertuples()]
    (tmp_path / "synthetic.qrels").write_text("".join(lines))
    return tmp_path / "synthetic.qrels"


def test_tune_quality_saves_the_best_point(retrieval, qrels, checkpoints_copy):
    output = checkpoints_copy / "quality"
    table = tuning.tune_quality(SYSTEM.name, qrels, retrieval, output)
    grid = pd.read_csv(output / "grid.csv")
    metrics = json.loads((output / "metrics.json").read_text())
    actual = grid[["depth", "weight"]].to_numpy().tolist()
    assert actual == [[point.depth, point.weight] for point in tuning.POINTS]
    assert grid.to_numpy() == pytest.approx(table.to_numpy(), abs=1e-6)
    point = read_config(output, QualityInterpolation)
    original = grid.iloc[tuning.RELEVANCE_ONLY]
    names = list(SELECTION_MEASURES)
    row = grid.iloc[tuning.POINTS.index(point)]
    # equal to the systems' rankings
    for stage, means in ((DIRICHLET, original), (SYSTEM.stage, row)):
        ranking = truncate_rankings(retrieval.rank(stage), DEFAULT_DEPTH)
        by_topic = evaluate_run(ranking, read_qrels(qrels))
        assert means[names].tolist() == pytest.approx(by_topic[names].mean().tolist(), abs=1e-6)
    constraints = [SELECTION_MEASURES[0], tuning.WEBIS_MEASURES[0]]
    is_allowed = (grid[constraints] >= original[constraints] - 0.01).all(axis=1)
    assert row[tuning.WEBIS_MEASURES[2]] == grid.loc[is_allowed, tuning.WEBIS_MEASURES[2]].max()
    for name in (*SELECTION_MEASURES, *tuning.WEBIS_MEASURES):
        gain = metrics["gain"][name]
        assert metrics["in-sample"][name] == pytest.approx(row[name], abs=1e-4)
        assert gain["mean"] == pytest.approx(
            metrics["cross-validated"][name] - metrics["original order"][name], abs=2e-4
        )
        # no interval if no topic changes
        assert gain["mean"] == 0 or gain["ci_low"] <= gain["mean"] <= gain["ci_high"]
    expected = ({"synthetic.qrels": 3, "Webis-ArgQuality-20": 6}, 5)
    assert (metrics["topics"], len(metrics["folds"])) == expected
    with Image.open(output / "grid.png") as image:
        assert len(image.convert("RGB").getcolors(1 << 24)) > 20  # a blank image has one colour
    assert point.format_formula() in (output / "README.md").read_text()
    inputs = json.loads((output / "provenance.json").read_text())["training_data"]["input"]
    assert {"synthetic.qrels", *(file.name for file in webis_argquality.list_files(Path()))} < set(
        inputs
    )


def test_shared_questions_are_in_one_fold(monkeypatch):
    training_rows = []

    def record(webis_values, touche_values):
        training_rows.append(({*touche_values[:, 0, 0]}, {*webis_values[:, 0, 0]}))
        return 0

    monkeypatch.setattr(tuning, "select_quality_point", record)
    touche, webis = (
        np.arange(n, dtype=float)[:, None, None] + np.zeros((1, len(tuning.POINTS), 4))
        for n in (3, 6)
    )
    tuning.cross_validate_quality((webis, np.array([*"bdefgh"])), (touche, np.array([*"abc"])))
    held_out = [({0, 1, 2} - first, {*range(6)} - second) for first, second in training_rows]
    assert sorted(row for rows, _ in held_out for row in rows) == [0, 1, 2]  # each is tested once
    assert sorted(row for _, rows in held_out for row in rows) == [0, 1, 2, 3, 4, 5]
    assert all((1 in first) == (0 in second) for first, second in held_out)  # the shared question


def test_grid_includes_the_original_and_the_quality_ranking(tmp_path):
    write_webis(tmp_path)
    judged = webis_argquality.read_judgments(tmp_path)
    values = tuning.evaluate_quality_grid(judged, judged["score"].to_numpy())
    assert values.shape == (6, len(tuning.POINTS) + 1, len(tuning.MEASURES))
    assert values[:, tuning.QUALITY_ONLY] == pytest.approx(
        1
    )  # in these data relevance equals quality
    expected = []
    for _, group in judged.groupby("qid"):
        gains = group["score"].rank(method="dense") - 1  # 0 for non-arguments
        for model in webis_argquality.MODELS:
            expected.append(
                [ndcg_score([gains], [-group[model]], k=depth) for depth in (5, 10)]
                * len(tuning.GAIN_COLUMNS)
            )
    assert values[:, tuning.RELEVANCE_ONLY] == pytest.approx(
        np.reshape(expected, (6, 3, -1)).mean(axis=1)
    )
    assert (
        values[:, [index for index, point in enumerate(tuning.POINTS) if not point.weight]]
        == values[:, [tuning.RELEVANCE_ONLY]]
    ).all()
    worst = tuning.evaluate_quality_grid(judged, -judged["score"].to_numpy())
    assert (worst[:, tuning.QUALITY_ONLY] < values[:, tuning.RELEVANCE_ONLY]).all()


def test_selected_point_keeps_relevance():
    webis = np.full((1, len(tuning.POINTS), len(tuning.MEASURES)), 0.5)
    quality, relevance = webis[0, :, 2], webis[0, :, 0]
    quality[[5, 7]] = 0.7, 0.9
    assert tuning.select_quality_point(webis) == 7
    touche = np.full((1, len(tuning.POINTS), len(SELECTION_MEASURES)), 0.5)
    touche[0, 7, SELECTION_MEASURES.index("nDCG@5")] = 0.48
    assert tuning.select_quality_point(webis, touche) == 5  # the loss on Touché's topics
    relevance[[5, 7]] = 0.495, 0.48
    assert tuning.select_quality_point(webis) == 5
    assert tuning.select_quality_point(webis, -touche) == 5  # a second, opposite constraint
    quality[5] = 0.4
    assert quality[tuning.select_quality_point(webis)] == 0.5


def test_cross_validation_does_not_select_on_the_test_topic():
    # point 3 is good for all topics; each topic has another best point, which is bad for the
    # remaining topics
    values = np.full((10, len(tuning.POINTS), len(tuning.MEASURES)), 0.5)
    values[:, 3, 2] = 0.6
    values[np.arange(10), 4 + np.arange(10), 2] = 1.0
    [held_out], _ = tuning.cross_validate_quality((values, np.arange(10).astype(str)))
    assert held_out[:, 2].tolist() == [0.6] * 10
