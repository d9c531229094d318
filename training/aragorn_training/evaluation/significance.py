"""Compute paired significance tests with Holm's correction, and bootstrap intervals."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from aragorn.errors import pluralise
from scipy.stats import bootstrap, permutation_test, ttest_rel

N_SAMPLES = 10_000  # number of bootstrap samples, and of random sign flips
CONFIDENCE = 0.95
SEED = 0
MIN_TOPICS = 2  # for an interval or a test
# with fewer topics, the randomisation test cannot reach p < .05 (2/2^5 = .0625)
MIN_TOPICS_FOR_P05 = 6


def bootstrap_means(values: pd.DataFrame) -> pd.DataFrame:
    """Compute means over topics (rows), ignoring NaN, with 95 % percentile bootstrap intervals.

    Returns:
        One row per measure: `mean ci_low ci_high`; the interval is NaN for fewer than two topics or
            constant values.
    """
    rows = {}
    for measure, column in values.items():
        # so that samples do not depend on the order of topics
        defined = np.sort(column.dropna().to_numpy(float))
        low, high = (
            _bootstrap_mean(defined)
            if len(defined) >= MIN_TOPICS and _varies(defined)
            else (np.nan, np.nan)
        )
        rows[measure] = {
            "mean": defined.mean() if len(defined) else np.nan,
            "ci_low": low,
            "ci_high": high,
        }
    return pd.DataFrame(rows).T


def compare_with_baseline(values: Mapping[str, pd.Series], baseline: str) -> pd.DataFrame:
    """Test each run's values of a measure per topic (NaN if undefined) against those of a baseline.

    Returns:
        One row per run but the baseline, over topics with values of both: `n_topics`, `difference`
            of means, two-sided p of
        the paired t-test (`p_t`) and the paired randomisation test (`p_randomisation`; Smucker,
        Allan, Carterette 2007), and both after Holm's correction for the number of runs
        (`p_t_holm`, `p_randomisation_holm`). p is NaN for fewer than two topics or constant
        differences.
    """
    rows = {}
    for name, column in values.items():
        if name == baseline:
            continue
        paired_values = pd.DataFrame({"run": column, "baseline": values[baseline]}).dropna()
        pair = paired_values["run"].to_numpy(float), paired_values["baseline"].to_numpy(float)
        differences = pair[0] - pair[1]
        is_testable = len(paired_values) >= MIN_TOPICS and _varies(differences)
        rows[name] = {
            "n_topics": len(paired_values),
            "difference": differences.mean() if len(paired_values) else np.nan,
            "p_t": float(ttest_rel(*pair).pvalue) if is_testable else np.nan,
            "p_randomisation": _test_by_randomisation(differences) if is_testable else np.nan,
        }
    table = pd.DataFrame(rows, index=["n_topics", "difference", "p_t", "p_randomisation"]).T.astype(
        {"n_topics": int}
    )
    for test in ("p_t", "p_randomisation"):
        table[f"{test}_holm"] = apply_holm_correction(table[test].to_numpy(float))
    return table


def format_sample_size_warning(n_topics: int) -> str:
    """Return a warning if there are fewer topics than MIN_TOPICS or MIN_TOPICS_FOR_P05, else an
    empty string."""
    if n_topics < MIN_TOPICS:
        return f"{pluralise(n_topics, 'topic')}: too few for intervals and tests (minimum {MIN_TOPICS})"
    if n_topics < MIN_TOPICS_FOR_P05:
        min_p = f"{2 / 2**n_topics:.3f}".lstrip("0")
        return f"{n_topics} topics: the randomisation test cannot reach p < {min_p}; intervals are imprecise"
    return ""


def apply_holm_correction(p: np.ndarray) -> np.ndarray:
    """Return p values (tests,) corrected by Holm's step-down procedure (Holm 1979); NaN is kept and
    not counted as a test."""
    corrected_p = np.full(len(p), np.nan)
    tested_rows = np.flatnonzero(~np.isnan(p))
    order = tested_rows[np.argsort(p[tested_rows], kind="stable")]
    corrected_p[order] = np.minimum(
        1.0, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1))
    )
    return corrected_p


def _varies(values: np.ndarray) -> bool:
    return bool(np.ptp(values) >= 1e-12)


def _bootstrap_mean(values: np.ndarray) -> tuple[float, float]:
    options = {"n_resamples": N_SAMPLES, "confidence_level": CONFIDENCE, "method": "percentile"}
    interval = bootstrap(
        (values,), np.mean, rng=np.random.default_rng(SEED), **options
    ).confidence_interval
    return interval.low, interval.high


def _test_by_randomisation(differences: np.ndarray) -> float:
    # random signs
    options = {"permutation_type": "samples", "vectorized": True, "n_resamples": N_SAMPLES}
    return float(
        permutation_test(
            (np.sort(differences),), np.mean, rng=np.random.default_rng(SEED), **options
        ).pvalue
    )
