"""Paired significance tests with Holm correction, and bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import bootstrap, permutation_test, ttest_rel

from submission.errors import pluralise

SAMPLES = 10_000  # bootstrap samples; random sign flips
CONFIDENCE = 0.95
SEED = 0
MIN_TOPICS = 2  # minimum topics for an interval or test
MIN_TOPICS_FOR_P05 = 6  # with fewer topics, the randomisation test cannot reach p < .05 (2/2^5 = .0625)


def bootstrap_intervals(values: pd.DataFrame, seed: int = SEED) -> pd.DataFrame:
    """Compute means over topics (rows) with 95 % percentile bootstrap intervals.

    Topics with NaN are excluded.

    Returns:
        One row per measure: `mean ci_low ci_high`; the interval is NaN for fewer than two topics or constant values.
    """
    rows = {}
    for measure, column in values.items():
        defined = column.dropna().to_numpy(float)
        low, high = _interval(defined, seed) if len(defined) >= MIN_TOPICS and _varies(defined) else (np.nan, np.nan)
        rows[measure] = {"mean": defined.mean() if len(defined) else np.nan, "ci_low": low, "ci_high": high}
    return pd.DataFrame(rows).T


def compare_with_baseline(values: Mapping[str, pd.Series], baseline: str, seed: int = SEED) -> pd.DataFrame:
    """Test each run against a baseline on one measure.

    Args:
        values: Per-topic values by run, on the same topics; NaN if undefined.
        baseline: Name of the baseline run.
        seed: Seed of the randomisation test.

    Returns:
        One row per other run, over topics defined for both: `n_topics`, `difference` of means, two-sided p values of the paired
        t-test (`p_t`) and the paired randomisation test (`p_randomisation`; Smucker, Allan, Carterette 2007), and both after
        Holm's correction for the number of runs (`p_t_holm`, `p_randomisation_holm`). p is NaN for fewer than two topics or
        constant differences.
    """
    rows = {}
    for name, column in values.items():
        if name == baseline:
            continue
        paired = pd.DataFrame({"run": column, "baseline": values[baseline]}).dropna()
        run_values, baseline_values = paired["run"].to_numpy(float), paired["baseline"].to_numpy(float)
        is_testable = len(paired) >= MIN_TOPICS and _varies(run_values - baseline_values)
        rows[name] = {
            "n_topics": len(paired),
            "difference": (run_values - baseline_values).mean() if len(paired) else np.nan,
            "p_t": float(ttest_rel(run_values, baseline_values).pvalue) if is_testable else np.nan,
            "p_randomisation": _randomisation_test(run_values, baseline_values, seed) if is_testable else np.nan,
        }
    table = pd.DataFrame(rows, index=["n_topics", "difference", "p_t", "p_randomisation"]).T.astype({"n_topics": int})
    for test in ("p_t", "p_randomisation"):
        table[f"{test}_holm"] = holm_correction(table[test].to_numpy(float))
    return table


def sample_size_warning(topics: int) -> str:
    """Return a warning if there are too few topics, else an empty string."""
    if topics < MIN_TOPICS:
        return f"{pluralise(topics, 'topic')}: too few for intervals and tests (minimum {MIN_TOPICS})"
    if topics < MIN_TOPICS_FOR_P05:
        min_p = f"{2 / 2**topics:.3f}".lstrip("0")
        return f"{topics} topics: the randomisation test cannot reach p < {min_p}; intervals are imprecise"
    return ""


def holm_correction(p: np.ndarray) -> np.ndarray:
    """Apply Holm's step-down correction (Holm 1979); NaN values are ignored."""
    corrected = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)))
    return corrected


def _varies(values: np.ndarray) -> bool:
    return bool(np.ptp(values) >= 1e-12)


def _interval(values: np.ndarray, seed: int) -> tuple[float, float]:
    interval = bootstrap(
        (values,), np.mean, n_resamples=SAMPLES, confidence_level=CONFIDENCE, method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval  # fmt: skip
    return interval.low, interval.high


def _randomisation_test(values: np.ndarray, baseline: np.ndarray, seed: int) -> float:
    def statistic(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray((x - y).mean(axis=axis))

    test = permutation_test(
        (values, baseline), statistic, permutation_type="samples", vectorized=True, n_resamples=SAMPLES,
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    return float(test.pvalue)
