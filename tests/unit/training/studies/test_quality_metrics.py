"""Tests of the quality metrics against other implementations, of the length baseline, and of the re-ranking grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import ndcg_score

from tests.conftest import REAL_DATA
from tests.unit.training.data.quality_files import write_webis
from training.data.datasets import ibm_argq, ukp_conv_arg_rank, webis_argquality
from training.studies.argument_quality.metrics import (
    MEASURES,
    NDCG_EXPONENTIAL,
    NDCG_LINEAR,
    count_argument_words,
    evaluate_by_topic,
    partial_spearman,
)
from training.studies.argument_quality.table import PUBLISHED
from training.tuning import quality_grid
from training.tuning.quality_grid import GAIN_COLUMNS, POINTS, QUALITY_ONLY, RELEVANCE_ONLY
from training.tuning.quality_grid import MEASURES as RERANKING_MEASURES

QUALITY = REAL_DATA / "quality"


def table(scores: list[float], words: list[int], topic: str = "ants") -> pd.DataFrame:
    texts = [" ".join(["so"] * n) for n in words]
    return pd.DataFrame({"data": "ukp", "topic": topic, "premise": texts, "score": scores})


def test_metrics_match_hand_computed_values() -> None:
    labels, scores = [0.1, 0.4, 0.2, 0.4], np.array([1.0, 4.0, 3.0, 2.0])  # dense ranks 1 3 2 3, ranked as 3 2 3 1
    values = evaluate_by_topic(table(labels, [4, 3, 2, 1]), scores).loc[("ukp", "ants")]
    assert values.index.tolist() == list(MEASURES)
    assert values["Pearson"] == pytest.approx(0.6025, abs=1e-4)
    assert values["Spearman"] == pytest.approx(np.sqrt(0.4))  # ranks 1 3.5 2 3.5 and 1 4 3 2
    assert values["Kendall"] == pytest.approx(3 / np.sqrt(5 * 6))
    discounts = 1 / np.log2([2, 3, 4, 5])
    for name, gains in ((NDCG_LINEAR[0], np.array([3, 2, 3, 1]) / 3), (NDCG_EXPONENTIAL[0], np.array([7, 3, 7, 1]))):
        assert values[name] == pytest.approx(gains @ discounts / (np.sort(gains)[::-1] @ discounts))
    # many ranks do not overflow
    values = evaluate_by_topic(table(list(range(1100)), [1 + n % 7 for n in range(1100)]), np.arange(1100.0))
    assert values[[*NDCG_LINEAR, *NDCG_EXPONENTIAL]].iloc[0].tolist() == pytest.approx([1] * 6)


def test_metrics_are_computed_per_topic() -> None:
    both = pd.concat([table([1, 2, 3], [1, 2, 4], "b"), table([1, 2, 3], [4, 2, 1], "a")], ignore_index=True)
    values = evaluate_by_topic(both, count_argument_words(both))
    assert values.index.tolist() == [("ukp", "b"), ("ukp", "a")]
    assert values["Spearman"].tolist() == pytest.approx([1, -1])
    assert values["partial Spearman (length)"].tolist() == [0, 0]
    tied = evaluate_by_topic(both, np.ones(6))[["Pearson", "Spearman", "Kendall", "partial Spearman (length)"]]
    assert (tied == 0).all(axis=None)


@given(st.integers(0, 1000), st.integers(5, 30))
def test_partial_spearman_controls_for_length(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    length = rng.integers(1, 9, n).astype(float)
    labels, scores = (length + rng.normal(0, 3, n) for _ in range(2))
    pairs = (labels, scores), (labels, length), (scores, length)
    spearman, labels_length, scores_length = (spearmanr(*pair).statistic for pair in pairs)
    expected = (spearman - labels_length * scores_length) / np.sqrt((1 - labels_length**2) * (1 - scores_length**2))
    assert partial_spearman(labels, scores, length) == pytest.approx(expected, abs=1e-6)
    assert partial_spearman(labels, scores, np.ones(n)) == pytest.approx(spearman, abs=1e-6)


def test_published_results_cover_all_losses() -> None:
    assert {name: len(rows) for name, rows in PUBLISHED.items()} == {"ukp": 9, "ibm": 8}
    assert PUBLISHED["ukp"]["ensemble"] == (0.48, 0.68, 0.51)


@pytest.mark.skipif(not QUALITY.is_dir(), reason="the published data are missing")
def test_length_baseline_on_the_published_data() -> None:
    means = {}
    for name, data, sizes in (("ukp", ukp_conv_arg_rank, (1052, 32, 16)), ("ibm", ibm_argq, (5298, 22, 11))):
        arguments = pd.concat([data.read_list(file) for file in data.list_files(QUALITY)]).assign(data=name)
        assert (len(arguments), arguments["topic"].nunique(), arguments["debate"].nunique()) == sizes
        assert (arguments.groupby("debate")["topic"].nunique() == 2).all()
        assert arguments["docno"].is_unique
        means[name] = evaluate_by_topic(arguments, count_argument_words(arguments)).mean()
    assert means["ukp"][["Pearson", "Spearman", "Kendall"]].tolist() == pytest.approx([0.322, 0.597, 0.441], abs=0.001)
    assert means["ukp"][[*NDCG_LINEAR, *NDCG_EXPONENTIAL]].tolist() == pytest.approx(
        [0.796, 0.822, 0.837, 0.437, 0.543, 0.594], abs=0.001
    )
    assert means["ibm"][["Pearson", "Spearman", "Kendall"]].tolist() == pytest.approx([0.057, 0.056, 0.038], abs=0.001)
    judged = webis_argquality.read_judgments(QUALITY)
    assert (len(judged), judged["argument"].sum(), judged["qid"].nunique()) == (1610, 1271, 20)
    assert judged[[*webis_argquality.MODELS]].notna().sum().sum() == 3000 - 133  # duplicates
    arguments = judged.query("argument").assign(data="webis")
    by_topic = evaluate_by_topic(arguments, count_argument_words(arguments))["Spearman"]
    assert (by_topic.mean(), by_topic.min(), by_topic.max()) == pytest.approx((0.767, 0.59, 0.87), abs=0.006)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    directory: Path = tmp_path_factory.mktemp("webis")
    write_webis(directory)
    return webis_argquality.read_judgments(directory)


def test_grid_includes_the_original_and_the_quality_ranking(judged: pd.DataFrame) -> None:
    values = quality_grid.evaluate_grid(judged, judged["score"].to_numpy())
    assert values.shape == (6, len(POINTS) + 1, len(RERANKING_MEASURES))
    assert values[:, QUALITY_ONLY] == pytest.approx(1)  # in these data relevance equals quality
    expected = []
    for _, group in judged.groupby("qid"):
        gains = group["score"].rank(method="dense") - 1  # 0 for non-arguments
        expected += [
            [ndcg_score([gains], [-group[model]], k=depth) for depth in (5, 10)] * len(GAIN_COLUMNS)
            for model in webis_argquality.MODELS
        ]
    assert values[:, RELEVANCE_ONLY] == pytest.approx(np.reshape(expected, (6, 3, -1)).mean(axis=1))
    assert (values[:, [index for index, point in enumerate(POINTS) if not point.weight]] == values[:, [RELEVANCE_ONLY]]).all()
    worst = quality_grid.evaluate_grid(judged, -judged["score"].to_numpy())
    assert (worst[:, QUALITY_ONLY] < values[:, RELEVANCE_ONLY]).all()


def test_selected_point_keeps_relevance() -> None:
    quality, relevance = np.full((2, len(POINTS)), 0.5)
    quality[[5, 7]], relevance[[5, 7]] = [0.7, 0.9], [0.495, 0.48]
    assert quality_grid.select_point(quality, relevance) == 5
    assert quality_grid.select_point(quality, relevance, -relevance) == 5  # a second, opposite constraint
    assert quality_grid.select_point(quality, np.full(len(POINTS), 0.5)) == 7
    quality[5] = 0.4
    assert quality[quality_grid.select_point(quality, relevance)] == 0.5


def test_cross_validation_does_not_select_on_the_test_topic() -> None:
    # point 3 is good for all topics; each topic has its own best point, which is bad for the others
    values = np.full((10, len(POINTS) + 1, len(RERANKING_MEASURES)), 0.5)
    values[:, 3, 2] = 0.6
    values[np.arange(10), 4 + np.arange(10), 2] = 1.0
    assert quality_grid.cross_validate(values)[:, 2].tolist() == [0.6] * 10
