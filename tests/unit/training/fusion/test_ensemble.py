"""Tests of the ensemble's regression: least squares, non-negative weights, and held-out scores."""

from __future__ import annotations

import numpy as np
import pytest

from training.evaluation.folds import assign_folds
from training.fusion.ensemble import FIT_CANDIDATES, fit_regression, score_held_out_queries

FINGERPRINTS = {"knrm": {"knrm": "k"}, "gru": {"gru": "g"}}


def simulate_scores(query_count: int) -> dict[str, np.ndarray]:
    """Simulate two arrays of scores (queries, 105): knrm ranks the positives high, gru ranks them low."""
    rng = np.random.default_rng(0)
    is_positive = np.arange(105) < 5
    knrm = rng.normal(size=(query_count, 105)) + 2 * is_positive
    return {"knrm": knrm, "gru": 5 * rng.normal(size=(query_count, 105)) - 3 * is_positive}


def test_regression_is_least_squares_over_scaled_scores() -> None:
    assert FIT_CANDIDATES.tolist() == [0, 1, 2, 3, 4, 5, 25, 45, 65, 85]  # positives and the first negative of each
    all_scores = simulate_scores(6)
    ensemble, metrics = fit_regression(all_scores, FINGERPRINTS)
    scores = {name: values[:, FIT_CANDIDATES] for name, values in all_scores.items()}
    columns = [(v.ravel() - v.min()) / (v.max() - v.min()) for v in scores.values()]
    features, labels = np.stack([*columns, np.ones(60)], axis=1), np.tile(np.repeat([1.0, 0.0], 5), 6)
    expected, *_ = np.linalg.lstsq(features, labels, rcond=None)
    assert [*(member.coefficient for member in ensemble.members), ensemble.intercept] == pytest.approx(expected.tolist())
    assert [(member.name, member.checkpoints, member.minimum, member.maximum) for member in ensemble.members] == [
        (name, FINGERPRINTS[name], values.min(), values.max()) for name, values in scores.items()
    ]
    residual = labels - features @ expected
    assert metrics == {"pairs": 60, "R²": pytest.approx(1 - residual.var() / labels.var(), abs=1e-4)}


def test_regression_can_be_non_negative() -> None:
    plain, positive = (fit_regression(simulate_scores(60), FINGERPRINTS, is_positive)[0] for is_positive in (False, True))
    assert plain.members[1].coefficient < -0.1
    assert positive.members[0].coefficient > positive.members[1].coefficient == 0


def test_cross_validated_scores_hold_out_the_fold() -> None:
    scores, folds = simulate_scores(20), assign_folds(20)
    held_out_scores, is_tested = score_held_out_queries(scores, non_negative=False), folds == folds[0]
    regression, _ = fit_regression({name: values[~is_tested] for name, values in scores.items()}, FINGERPRINTS)
    expected = regression.score({name: values[is_tested] for name, values in scores.items()})
    assert held_out_scores[is_tested] == pytest.approx(expected, abs=1e-12)
    assert not np.allclose(held_out_scores, fit_regression(scores, FINGERPRINTS)[0].score(scores))
