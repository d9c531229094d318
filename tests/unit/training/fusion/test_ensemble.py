from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from training.evaluation.folds import assign_folds
from training.fusion.ensemble import FIT_CANDIDATES, cross_validated_scores, fit_regression

MADE_WITH = {"knrm": {"knrm": "k"}, "gru": {"gru": "g"}}


def scores_of(queries: int) -> dict[str, np.ndarray]:
    """Scores (queries, 105): knrm tells related premises from others, gru sees the contrary."""
    rng = np.random.default_rng(0)
    related = np.arange(105) < 5
    return {
        "knrm": rng.normal(size=(queries, 105)) + 2 * related,
        "gru": 5 * rng.normal(size=(queries, 105)) - 3 * related,
    }


def test_regression_is_least_squares_and_can_be_non_negative() -> None:
    assert FIT_CANDIDATES.tolist() == [0, 1, 2, 3, 4, 5, 25, 45, 65, 85]  # the related and one unrelated of each
    everything = scores_of(6)
    ensemble, metrics = fit_regression(everything, MADE_WITH)
    scores = {name: values[:, FIT_CANDIDATES] for name, values in everything.items()}
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

    plain, _ = fit_regression(scores_of(60), MADE_WITH)
    positive, _ = fit_regression(scores_of(60), MADE_WITH, non_negative=True)
    assert plain.members[1].coefficient < -0.1
    assert positive.members[1].coefficient == 0
    assert positive.members[0].coefficient > 0


def test_ensemble_sums_listed_documents() -> None:
    scores = scores_of(2)
    regression, _ = fit_regression(scores, MADE_WITH)
    docnos = [f"d{i}" for i in range(105)]
    tables = {
        name: pd.DataFrame({"qid": np.repeat(["1", "2"], 105), "docno": docnos * 2, "score": values.ravel()})
        for name, values in scores.items()
    }
    combined = regression.score_rankings(tables).set_index(["qid", "docno"])["score"]
    expected = [[combined[qid, docno] for docno in docnos] for qid in ("1", "2")]
    assert regression.score(scores) == pytest.approx(np.array(expected), abs=1e-12)


def test_held_out_scores_exclude_their_fold() -> None:
    scores = scores_of(20)
    fold_of = assign_folds(20)
    before = cross_validated_scores(scores, non_negative=False)
    fold_rows = np.flatnonzero(fold_of == fold_of[0])
    train = {name: values[fold_of != fold_of[0]] for name, values in scores.items()}
    expected, _ = fit_regression(train, MADE_WITH)
    assert before[fold_rows] == pytest.approx(
        expected.score({name: values[fold_rows] for name, values in scores.items()}), abs=1e-12
    )
    assert not np.allclose(before, fit_regression(scores, MADE_WITH)[0].score(scores))
