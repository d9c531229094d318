"""Compare significance tests and intervals with hand-computed and enumerated values."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from training.evaluation.significance import bootstrap_intervals, compare_with_baseline, holm_correction, sample_size_warning


def test_randomisation_test_equals_enumeration() -> None:
    base, run = np.array([0.1, 0.5, 0.2, 0.9, 0.4, 0.3]), np.array([0.4, 0.5, 0.6, 0.8, 0.9, 0.7])
    differences = run - base
    means = [abs((differences * signs).mean()) for signs in product([1, -1], repeat=6)]
    exact = np.mean([mean >= abs(differences.mean()) - 1e-12 for mean in means])
    result = compare_with_baseline({"base": pd.Series(base), "other": pd.Series(run)}, "base")
    assert result.loc["other", "p_randomisation"] == pytest.approx(exact)
    assert result.loc["other", "difference"] == pytest.approx(differences.mean())
    # t = mean / (s / √n) = .25 / (.2429 / 2.449) = 2.521 with 5 degrees of freedom; .05 would be 2.571
    assert result.loc["other", "p_t"] == pytest.approx(0.0531, abs=2e-4)


def test_holm_correction_covers_all_testable_runs() -> None:
    # sorted .01 .02 .04 .5 → times 4 3 2 1 → .04 .06 .08 .5
    np.testing.assert_allclose(holm_correction(np.array([0.04, 0.01, 0.5, 0.02])), [0.08, 0.04, 0.5, 0.06])
    np.testing.assert_allclose(holm_correction(np.array([0.6, 0.5])), [1.0, 1.0])  # at most 1, monotone
    np.testing.assert_allclose(holm_correction(np.array([0.02, 0.021])), [0.04, 0.04])

    rng = np.random.default_rng(0)
    base = pd.Series(rng.uniform(size=40))
    values = {"base": base, "same": base, "better": base + 0.2, "noise": base + rng.normal(0, 0.2, 40)}
    result = compare_with_baseline(values, "base")
    assert list(result.index) == ["same", "better", "noise"]
    assert result.loc["same", ["n_topics", "difference"]].tolist() == [40, 0.0]
    assert result.loc[["same", "better"]].drop(columns=["n_topics", "difference"]).isna().all(axis=None)  # nothing varies
    assert result.loc["noise", "p_t_holm"] == pytest.approx(result.loc["noise", "p_t"])  # the only test
    values["another"] = values["noise"] + 0.5
    both = compare_with_baseline(values, "base")
    assert both.loc["another", "p_randomisation_holm"] == pytest.approx(2 * both.loc["another", "p_randomisation"])
    assert both.loc["another", "p_randomisation_holm"] < 0.001
    assert compare_with_baseline(values, "base").equals(both)  # seeded


def test_intervals_and_tests_exclude_undefined_topics() -> None:
    rng = np.random.default_rng(1)
    values = pd.DataFrame({"m": rng.normal(0.5, 0.1, 400), "constant": 0.25})
    result = bootstrap_intervals(values)
    assert result.loc["m", "mean"] == pytest.approx(values["m"].mean())
    half = 1.96 * values["m"].std() / 20
    assert result.loc["m", "ci_low"] == pytest.approx(values["m"].mean() - half, abs=0.002)
    assert result.loc["m", "ci_high"] == pytest.approx(values["m"].mean() + half, abs=0.002)
    assert result.loc["constant"].tolist() == pytest.approx([0.25, np.nan, np.nan], nan_ok=True)

    # A topic without a value is excluded from both runs.
    base = pd.Series([0.1, 0.2, np.nan, 0.4, 0.5, 0.3])
    run = pd.Series([0.3, np.nan, 0.9, 0.3, 0.9, 0.8])
    result = compare_with_baseline({"base": base, "other": run}, "base").loc["other"]
    complete = compare_with_baseline({"base": base[[0, 3, 4, 5]], "other": run[[0, 3, 4, 5]]}, "base").loc["other"]
    assert result["n_topics"] == 4
    assert result["difference"] == pytest.approx((0.2 - 0.1 + 0.4 + 0.5) / 4)
    assert result.tolist() == complete.tolist()
    both = [bootstrap_intervals(pd.DataFrame({"m": values})).loc["m"].tolist() for values in (base, base.dropna())]
    assert both[0] == both[1]


def test_few_topics_yield_nan_and_a_warning() -> None:
    for topics in (0, 1):
        values = pd.Series([0.5] * topics, dtype=float)
        assert bootstrap_intervals(pd.DataFrame({"m": values}))[["ci_low", "ci_high"]].isna().all(axis=None)
        result = compare_with_baseline({"base": values, "other": values + 0.1}, "base").loc["other"]
        assert result["n_topics"] == topics
        assert result[["p_t", "p_randomisation", "p_t_holm"]].isna().all()
    assert sample_size_warning(1) == "1 topic: too few for intervals and tests (minimum 2)"
    assert sample_size_warning(3) == "3 topics: the randomisation test cannot reach p < .250; intervals are imprecise"
    differences = np.array([0.1, 0.2, 0.3])
    result = compare_with_baseline({"base": pd.Series(0 * differences), "other": pd.Series(differences)}, "base")
    assert result.loc["other", "p_randomisation"] == pytest.approx(0.25)  # the minimum for three topics
    assert sample_size_warning(6) == ""
