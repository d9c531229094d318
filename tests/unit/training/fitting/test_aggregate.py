from __future__ import annotations

import numpy as np
import pytest

from training.fusing.aggregate import COLUMNS, fitted


def test_columns_are_the_related_and_one_unrelated_of_each() -> None:
    assert COLUMNS.tolist() == [0, 1, 2, 3, 4, 5, 25, 45, 65, 85]


def test_the_regression_is_least_squares_over_normalised_scores() -> None:
    rng = np.random.default_rng(0)
    scores = {"knrm": rng.normal(size=(6, 10)) + np.repeat([2, 0], 5), "gru": 5 * rng.normal(size=(6, 10))}
    ensemble, metrics = fitted(scores, {"knrm": {"knrm": "k"}, "gru": {"gru": "g"}})
    columns = [(v.ravel() - v.min()) / (v.max() - v.min()) for v in scores.values()]
    labels = np.tile(np.repeat([1.0, 0.0], 5), 6)
    expected, *_ = np.linalg.lstsq(np.stack([*columns, np.ones(60)], axis=1), labels, rcond=None)
    assert [*(member.coefficient for member in ensemble.members), ensemble.intercept] == pytest.approx(expected.tolist())
    assert [(m.name, m.checkpoints, m.minimum, m.maximum) for m in ensemble.members] == [
        ("knrm", {"knrm": "k"}, scores["knrm"].min(), scores["knrm"].max()),
        ("gru", {"gru": "g"}, scores["gru"].min(), scores["gru"].max()),
    ]
    residual = labels - np.stack([*columns, np.ones(60)], axis=1) @ expected
    assert metrics == {"pairs": 60, "R²": pytest.approx(1 - residual.var() / labels.var(), abs=1e-4)}
