"""The measures of a list against values that were computed otherwise, and length on the published lists."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as generated
from hypothesis import strategies as st
from scipy.stats import spearmanr

from tests.conftest import REAL
from training.quality import ibm, ukp, webis
from training.studies.argument_quality.measures import EXPONENTIAL, LINEAR, MEASURES, by_list, given, lengths
from training.studies.argument_quality.paper import PAPER

QUALITY = REAL / "quality"


def table(scores: list[float], words: list[int], topic: str = "ants") -> pd.DataFrame:
    texts = [" ".join(["so"] * number) for number in words]
    return pd.DataFrame({"data": "ukp", "topic": topic, "premise": texts, "score": scores})


def test_the_measures_of_a_list() -> None:
    labels, scores = [0.1, 0.4, 0.2, 0.4], np.array([1.0, 4.0, 3.0, 2.0])  # dense ranks 1 3 2 3, found as 3 2 3 1
    found = by_list(table(labels, [4, 3, 2, 1]), scores).loc[("ukp", "ants")]
    assert found.index.tolist() == list(MEASURES)
    assert found["Pearson"] == pytest.approx(0.6025, abs=1e-4)
    assert found["Spearman"] == pytest.approx(np.sqrt(0.4))  # ranks 1 3.5 2 3.5 and 1 4 3 2
    assert found["Kendall"] == pytest.approx(3 / np.sqrt(5 * 6))
    discounts = 1 / np.log2([2, 3, 4, 5])
    for name, gains in ((LINEAR[0], np.array([3, 2, 3, 1]) / 3), (EXPONENTIAL[0], np.array([7, 3, 7, 1]))):
        assert found[name] == pytest.approx(gains @ discounts / (np.sort(gains)[::-1] @ discounts))


def test_many_ranks_do_not_overflow() -> None:
    found = by_list(table(list(range(1100)), [1 + place % 7 for place in range(1100)]), np.arange(1100.0))
    assert found[[*LINEAR, *EXPONENTIAL]].iloc[0].tolist() == pytest.approx([1] * 6)


def test_lists_are_measured_apart() -> None:
    both = pd.concat([table([1, 2, 3], [1, 2, 4], "b"), table([1, 2, 3], [4, 2, 1], "a")], ignore_index=True)
    found = by_list(both, lengths(both))
    assert found.index.tolist() == [("ukp", "b"), ("ukp", "a")]
    assert found["Spearman"].tolist() == pytest.approx([1, -1])
    assert found["Spearman given length"].tolist() == [0, 0]
    assert (by_list(both, np.ones(6))[["Pearson", "Spearman", "Kendall", "Spearman given length"]] == 0).all(axis=None)


@generated(st.integers(0, 1000), st.integers(5, 30))
def test_given_length_is_the_partial_correlation(seed: int, number: int) -> None:
    rng = np.random.default_rng(seed)
    length = rng.integers(1, 9, number).astype(float)
    labels, scores = (length + rng.normal(0, 3, number) for _ in range(2))
    own, of_labels, of_scores = (spearmanr(*pair).statistic for pair in ((labels, scores), (labels, length), (scores, length)))
    expected = (own - of_labels * of_scores) / np.sqrt((1 - of_labels**2) * (1 - of_scores**2))
    assert given(labels, scores, length) == pytest.approx(expected)
    assert given(labels, scores, np.ones(number)) == pytest.approx(own)


def test_the_paper_has_three_correlations_of_six_losses() -> None:
    assert {name: len(rows) for name, rows in PAPER.items()} == {"ukp": 9, "ibm": 8}
    assert PAPER["ukp"]["ensemble"] == (0.48, 0.68, 0.51)


@pytest.mark.skipif(not QUALITY.is_dir(), reason="the real data is not beside this checkout")
def test_length_on_the_published_lists() -> None:
    values = {}
    for name, reader in (("ukp", ukp), ("ibm", ibm)):
        found = pd.concat([reader.read(file) for file in reader.files(QUALITY)]).assign(data=name)
        values[name] = by_list(found, lengths(found)).mean()
    assert values["ukp"][["Pearson", "Spearman", "Kendall"]].tolist() == pytest.approx([0.322, 0.597, 0.441], abs=0.001)
    assert values["ukp"][[*LINEAR, *EXPONENTIAL]].tolist() == pytest.approx(
        [0.796, 0.822, 0.837, 0.437, 0.543, 0.594], abs=0.001
    )
    assert values["ibm"][["Pearson", "Spearman", "Kendall"]].tolist() == pytest.approx([0.057, 0.056, 0.038], abs=0.001)
    found = webis.read(QUALITY).query("argument").assign(data="webis")
    by_topic = by_list(found, lengths(found))["Spearman"]
    assert (by_topic.mean(), by_topic.min(), by_topic.max()) == pytest.approx((0.767, 0.59, 0.87), abs=0.006)
