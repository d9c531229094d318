from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from training.evaluation.folds import assign_folds
from training.fusion.ensemble import FIT_CANDIDATES, cross_validated_scores, fit_regression

FINGERPRINTS = {"knrm": {"knrm": "k"}, "gru": {"gru": "g"}}


def simulate_scores(query_count: int) -> dict[str, np.ndarray]:
    """Simulate scores (queries, 105): knrm ranks the positives high, gru ranks them low."""
    rng = np.random.default_rng(0)
    is_positive = np.arange(105) < 5
    return {
        "knrm": rng.normal(size=(query_count, 105)) + 2 * is_positive,
        "gru": 5 * rng.normal(size=(query_count, 105)) - 3 * is_positive,
    }


def test_regression_is_least_squares_over_scaled_scores() -> None:
    assert FIT_CANDIDATES.tolist() == [0, 1, 2, 3, 4, 5, 25, 45, 65, 85]  # positives and the first negative of each
    all_scores = simulate_scores(6)
    ensemble, metrics = fit_regression(all_scores, FINGERPRINTS)
    scores = {name: values[:, FIT_CANDIDATES] for name, values in all_scores.items()}
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


def test_regression_can_be_non_negative() -> None:
    plain, _ = fit_regression(simulate_scores(60), FINGERPRINTS)
    positive, _ = fit_regression(simulate_scores(60), FINGERPRINTS, non_negative=True)
    assert plain.members[1].coefficient < -0.1
    assert positive.members[1].coefficient == 0
    assert positive.members[0].coefficient > 0


def test_regression_scores_rankings_and_arrays_alike() -> None:
    scores = simulate_scores(2)
    regression, _ = fit_regression(scores, FINGERPRINTS)
    docnos = [f"d{index}" for index in range(105)]
    tables = {
        name: pd.DataFrame({"qid": np.repeat(["1", "2"], 105), "docno": docnos * 2, "score": values.ravel()})
        for name, values in scores.items()
    }
    combined = regression.score_rankings(tables).set_index(["qid", "docno"])["score"]
    expected = [[combined[qid, docno] for docno in docnos] for qid in ("1", "2")]
    assert regression.score(scores) == pytest.approx(np.array(expected), abs=1e-12)


def test_cross_validated_scores_hold_out_the_fold() -> None:
    scores = simulate_scores(20)
    folds = assign_folds(20)
    held_out_scores = cross_validated_scores(scores, non_negative=False)
    in_fold = np.flatnonzero(folds == folds[0])
    train = {name: values[folds != folds[0]] for name, values in scores.items()}
    expected, _ = fit_regression(train, FINGERPRINTS)
    expected_scores = expected.score({name: values[in_fold] for name, values in scores.items()})
    assert held_out_scores[in_fold] == pytest.approx(expected_scores, abs=1e-12)
    assert not np.allclose(held_out_scores, fit_regression(scores, FINGERPRINTS)[0].score(scores))
