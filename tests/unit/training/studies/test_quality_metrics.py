"""Tests of quality metrics by hand and with scipy, and of the length baseline."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from aragorn_training.data.datasets import webis_argquality
from aragorn_training.data.datasets.quality_lists import IBM, UKP
from aragorn_training.studies.argument_quality import table as metrics
from tests.conftest import REAL_DATA

QUALITY = REAL_DATA / "quality"


def build_table(scores, words, topic="ants"):
    texts = [" ".join(["so"] * n) for n in words]
    return pd.DataFrame({"data": "ukp", "topic": topic, "premise": texts, "score": scores})


def test_metrics_match_hand_computed_values():
    # dense ranks 1 3 2 3, ranked as 3 2 3 1
    labels = [0.1, 0.4, 0.2, 0.4]
    scores = np.array([1.0, 4.0, 3.0, 2.0])
    values = metrics.evaluate_by_topic(build_table(labels, [4, 3, 2, 1]), scores).loc[
        ("ukp", "ants")
    ]
    assert values.index.tolist() == list(metrics.MEASURES)
    # Spearman: ranks 1 3.5 2 3.5 and 1 4 3 2
    expected = {"Pearson": 0.60246, "Spearman": np.sqrt(0.4), "Kendall": 3 / np.sqrt(5 * 6)}
    discounts = 1 / np.log2([2, 3, 4, 5])
    for name, gains in (
        (metrics.NDCG_LINEAR[0], np.array([3, 2, 3, 1]) / 3),
        (metrics.NDCG_EXPONENTIAL[0], np.array([7, 3, 7, 1])),
    ):
        expected[name] = gains @ discounts / (np.sort(gains)[::-1] @ discounts)
    assert values[list(expected)].to_dict() == pytest.approx(expected, abs=1e-5)


def test_many_ranks_do_not_overflow():
    values = metrics.evaluate_by_topic(
        build_table(list(range(1100)), [1 + n % 7 for n in range(1100)]), np.arange(1100.0)
    )
    expected = pytest.approx([1] * 6)
    assert values[[*metrics.NDCG_LINEAR, *metrics.NDCG_EXPONENTIAL]].iloc[0].tolist() == expected


def test_partial_spearman_controls_for_length():
    rng = np.random.default_rng(0)
    length = rng.integers(1, 9, 20).astype(float)
    labels, scores = (length + rng.normal(0, 3, 20) for _ in range(2))
    pairs = (labels, scores), (labels, length), (scores, length)
    spearman, labels_length, scores_length = (spearmanr(*pair).statistic for pair in pairs)
    expected = (spearman - labels_length * scores_length) / np.sqrt(
        (1 - labels_length**2) * (1 - scores_length**2)
    )
    assert metrics.partial_spearman(labels, scores, length) == pytest.approx(expected, abs=1e-6)
    actual = metrics.partial_spearman(labels, scores, np.ones(20))
    assert actual == pytest.approx(spearman, abs=1e-6)


@pytest.mark.skipif(not QUALITY.is_dir(), reason="the published data are missing")
@pytest.mark.parametrize(
    ("data", "sizes", "correlations"),
    [(UKP, (1052, 32, 16), (0.322, 0.597, 0.441)), (IBM, (5298, 22, 11), (0.057, 0.056, 0.038))],
    ids=["ukp", "ibm"],
)
def test_length_baseline_has_published_values(data, sizes, correlations):
    arguments = pd.concat([data.read_list(file) for file in data.list_files(QUALITY)]).assign(
        data="data"
    )
    assert (len(arguments), arguments["topic"].nunique(), arguments["debate"].nunique()) == sizes
    assert (arguments.groupby("debate")["topic"].nunique() == 2).all()
    assert arguments["docno"].is_unique
    means = metrics.evaluate_by_topic(arguments, metrics.count_argument_words(arguments)).mean()
    actual = tuple(means[["Pearson", "Spearman", "Kendall"]])
    assert actual == pytest.approx(correlations, abs=0.001)
    if data is UKP:
        expected = [0.796, 0.822, 0.837, 0.437, 0.543, 0.594]
        actual = means[[*metrics.NDCG_LINEAR, *metrics.NDCG_EXPONENTIAL]].tolist()
        assert actual == pytest.approx(expected, abs=0.001)


@pytest.mark.skipif(not QUALITY.is_dir(), reason="the published data are missing")
def test_length_correlates_with_quality_in_webis():
    judged = webis_argquality.read_judgments(QUALITY)
    assert (len(judged), judged["argument"].sum(), judged["qid"].nunique()) == (1610, 1271, 20)
    assert judged[[*webis_argquality.MODELS]].notna().sum().sum() == 3000 - 133  # duplicates
    arguments = judged.query("argument").assign(data="webis")
    by_topic = metrics.evaluate_by_topic(arguments, metrics.count_argument_words(arguments))[
        "Spearman"
    ]
    expected = (0.767, 0.59, 0.87)
    assert (by_topic.mean(), by_topic.min(), by_topic.max()) == pytest.approx(expected, abs=0.006)
