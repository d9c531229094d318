"""The measures of a list against values that were computed otherwise, length on the published lists, and re-ordered ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as generated
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
    evaluate_by_topic,
    partial_spearman,
    word_counts,
)
from training.studies.argument_quality.published import PUBLISHED
from training.tuning import quality_grid
from training.tuning.quality_grid import GAIN_COLUMNS, ORIGINAL_ORDER, POINTS, QUALITY_ONLY
from training.tuning.quality_grid import MEASURES as REORDERED

QUALITY = REAL_DATA / "quality"


def table(scores: list[float], words: list[int], topic: str = "ants") -> pd.DataFrame:
    texts = [" ".join(["so"] * number) for number in words]
    return pd.DataFrame({"data": "ukp", "topic": topic, "premise": texts, "score": scores})


def test_the_measures_of_a_list() -> None:
    labels, scores = [0.1, 0.4, 0.2, 0.4], np.array([1.0, 4.0, 3.0, 2.0])  # dense ranks 1 3 2 3, found as 3 2 3 1
    found = evaluate_by_topic(table(labels, [4, 3, 2, 1]), scores).loc[("ukp", "ants")]
    assert found.index.tolist() == list(MEASURES)
    assert found["Pearson"] == pytest.approx(0.6025, abs=1e-4)
    assert found["Spearman"] == pytest.approx(np.sqrt(0.4))  # ranks 1 3.5 2 3.5 and 1 4 3 2
    assert found["Kendall"] == pytest.approx(3 / np.sqrt(5 * 6))
    discounts = 1 / np.log2([2, 3, 4, 5])
    for name, gains in ((NDCG_LINEAR[0], np.array([3, 2, 3, 1]) / 3), (NDCG_EXPONENTIAL[0], np.array([7, 3, 7, 1]))):
        assert found[name] == pytest.approx(gains @ discounts / (np.sort(gains)[::-1] @ discounts))
    # Many ranks do not overflow.
    found = evaluate_by_topic(table(list(range(1100)), [1 + place % 7 for place in range(1100)]), np.arange(1100.0))
    assert found[[*NDCG_LINEAR, *NDCG_EXPONENTIAL]].iloc[0].tolist() == pytest.approx([1] * 6)


def test_lists_are_measured_apart() -> None:
    both = pd.concat([table([1, 2, 3], [1, 2, 4], "b"), table([1, 2, 3], [4, 2, 1], "a")], ignore_index=True)
    found = evaluate_by_topic(both, word_counts(both))
    assert found.index.tolist() == [("ukp", "b"), ("ukp", "a")]
    assert found["Spearman"].tolist() == pytest.approx([1, -1])
    assert found["partial Spearman (length)"].tolist() == [0, 0]
    assert (evaluate_by_topic(both, np.ones(6))[["Pearson", "Spearman", "Kendall", "partial Spearman (length)"]] == 0).all(
        axis=None
    )


@generated(st.integers(0, 1000), st.integers(5, 30))
def test_given_length_is_the_partial_correlation(seed: int, number: int) -> None:
    rng = np.random.default_rng(seed)
    length = rng.integers(1, 9, number).astype(float)
    labels, scores = (length + rng.normal(0, 3, number) for _ in range(2))
    own, of_labels, of_scores = (spearmanr(*pair).statistic for pair in ((labels, scores), (labels, length), (scores, length)))
    expected = (own - of_labels * of_scores) / np.sqrt((1 - of_labels**2) * (1 - of_scores**2))
    assert partial_spearman(labels, scores, length) == pytest.approx(expected)
    assert partial_spearman(labels, scores, np.ones(number)) == pytest.approx(own)


def test_the_paper_has_three_correlations_of_six_losses() -> None:
    assert {name: len(rows) for name, rows in PUBLISHED.items()} == {"ukp": 9, "ibm": 8}
    assert PUBLISHED["ukp"]["ensemble"] == (0.48, 0.68, 0.51)


@pytest.mark.skipif(not QUALITY.is_dir(), reason="the real data is not beside this checkout")
def test_the_published_lists_and_length_on_them() -> None:
    values = {}
    for name, data, sizes in (("ukp", ukp_conv_arg_rank, (1052, 32, 16)), ("ibm", ibm_argq, (5298, 22, 11))):
        found = pd.concat([data.read_list(file) for file in data.files(QUALITY)]).assign(data=name)
        assert (len(found), found["topic"].nunique(), found["debate"].nunique()) == sizes
        assert (found.groupby("debate")["topic"].nunique() == 2).all()
        assert found["docno"].is_unique
        values[name] = evaluate_by_topic(found, word_counts(found)).mean()
    assert values["ukp"][["Pearson", "Spearman", "Kendall"]].tolist() == pytest.approx([0.322, 0.597, 0.441], abs=0.001)
    assert values["ukp"][[*NDCG_LINEAR, *NDCG_EXPONENTIAL]].tolist() == pytest.approx(
        [0.796, 0.822, 0.837, 0.437, 0.543, 0.594], abs=0.001
    )
    assert values["ibm"][["Pearson", "Spearman", "Kendall"]].tolist() == pytest.approx([0.057, 0.056, 0.038], abs=0.001)
    judged = webis_argquality.read_judgments(QUALITY)
    assert (len(judged), judged["argument"].sum(), judged["qid"].nunique()) == (1610, 1271, 20)
    assert judged[[*webis_argquality.MODELS]].notna().sum().sum() == 3000 - 133  # listed a second time
    found = judged.query("argument").assign(data="webis")
    by_topic = evaluate_by_topic(found, word_counts(found))["Spearman"]
    assert (by_topic.mean(), by_topic.min(), by_topic.max()) == pytest.approx((0.767, 0.59, 0.87), abs=0.006)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    directory: Path = tmp_path_factory.mktemp("webis")
    write_webis(directory)
    return webis_argquality.read_judgments(directory)


def test_the_given_order_and_quality_alone(judged: pd.DataFrame) -> None:
    values = quality_grid.evaluate_grid(judged, judged["score"].to_numpy())
    assert values.shape == (6, len(POINTS) + 1, len(REORDERED))
    assert values[:, QUALITY_ONLY] == pytest.approx(1)  # in these data relevance and quality are one
    expected = []
    for _, own in judged.groupby("qid"):
        gains = own["score"].rank(method="dense") - 1  # 0 of what is no argument
        expected += [
            [ndcg_score([gains], [-own[model]], k=depth) for depth in (5, 10)] * len(GAIN_COLUMNS)
            for model in webis_argquality.MODELS
        ]
    assert values[:, ORIGINAL_ORDER] == pytest.approx(np.reshape(expected, (6, 3, -1)).mean(axis=1))
    assert (values[:, [place for place, point in enumerate(POINTS) if not point.weight]] == values[:, [ORIGINAL_ORDER]]).all()
    worst = quality_grid.evaluate_grid(judged, -judged["score"].to_numpy())
    assert (worst[:, QUALITY_ONLY] < values[:, ORIGINAL_ORDER]).all()


def test_the_point_costs_no_relevance() -> None:
    quality, relevance = np.full((2, len(POINTS)), 0.5)
    quality[[5, 7]], relevance[[5, 7]] = [0.7, 0.9], [0.495, 0.48]
    assert quality_grid.select_point(quality, relevance) == 5
    assert quality_grid.select_point(quality, relevance, -relevance) == 5  # where that is the other way round
    assert quality_grid.select_point(quality, np.full(len(POINTS), 0.5)) == 7
    quality[5] = 0.4
    assert quality[quality_grid.select_point(quality, relevance)] == 0.5


def test_a_topic_does_not_choose_its_own_point() -> None:
    """Each topic has a point that is best for it alone, and all have one that is good."""
    values = np.full((10, len(POINTS) + 1, len(REORDERED)), 0.5)
    values[:, 3, 2] = 0.6
    values[np.arange(10), 4 + np.arange(10), 2] = 1.0
    assert quality_grid.cross_validate(values)[:, 2].tolist() == [0.6] * 10
