"""Re-ordered lists: what they come to, and that the point is chosen on other topics than it is measured on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import ndcg_score

from tests.unit.training.quality import write_webis
from training.quality import webis
from training.quality.webis import MODELS
from training.studies.argument_quality import rerank
from training.studies.argument_quality.rerank import ALONE, GAINS, GIVEN, MEASURES, POINTS


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    directory: Path = tmp_path_factory.mktemp("webis")
    write_webis(directory)
    return webis.read(directory)


def test_the_given_order_and_quality_alone(judged: pd.DataFrame) -> None:
    values = rerank.values(judged, judged["score"].to_numpy())
    assert values.shape == (6, len(POINTS) + 1, len(MEASURES))
    assert values[:, ALONE] == pytest.approx(1)  # in these data relevance and quality are one
    expected = []
    for _, own in judged.groupby("qid"):
        gains = own["score"].rank(method="dense") - 1  # 0 of what is no argument
        expected += [[ndcg_score([gains], [-own[model]], k=depth) for depth in (5, 10)] * len(GAINS) for model in MODELS]
    assert values[:, GIVEN] == pytest.approx(np.reshape(expected, (6, 3, -1)).mean(axis=1))
    assert (values[:, [place for place, point in enumerate(POINTS) if not point.weight]] == values[:, [GIVEN]]).all()
    worst = rerank.values(judged, -judged["score"].to_numpy())
    assert (worst[:, ALONE] < values[:, GIVEN]).all()


def test_the_point_costs_no_relevance() -> None:
    quality, relevance = np.full((2, len(POINTS)), 0.5)
    quality[[5, 7]], relevance[[5, 7]] = [0.7, 0.9], [0.495, 0.48]
    assert rerank.chosen(quality, relevance) == 5
    assert rerank.chosen(quality, relevance, -relevance) == 5  # where that is the other way round
    assert rerank.chosen(quality, np.full(len(POINTS), 0.5)) == 7
    quality[5] = 0.4
    assert quality[rerank.chosen(quality, relevance)] == 0.5


def test_a_topic_does_not_choose_its_own_point() -> None:
    """Each topic has a point that is best for it alone, and all have one that is good."""
    values = np.full((10, len(POINTS) + 1, len(MEASURES)), 0.5)
    values[:, 3, 2] = 0.6
    values[np.arange(10), 4 + np.arange(10), 2] = 1.0
    assert rerank.cross_validated(values)[:, 2].tolist() == [0.6] * 10
