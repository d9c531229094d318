"""Compute paired significance tests with Holm's correction, and bootstrap intervals."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import bootstrap, ttest_rel

from aragorn.errors import pluralise

N_SAMPLES = 10_000  # number of bootstrap samples, and of random assignments of signs
MAX_EXACT_TOPICS = 16  # topics that differ; with more, signs are drawn at random
MAX_DRAWS = 2**20  # numbers that are drawn at once, which bounds the memory
TOLERANCE = 1e-12  # of rounding; smaller differences are none
CONFIDENCE = 0.95
ALPHA = 0.05  # level of significance after Holm's correction
SEED = 0
MIN_TOPICS = 2  # for an interval or a test
# with fewer topics, the randomisation test cannot reach p < .05 (2/2^5 = .0625)
MIN_TOPICS_FOR_P05 = 6


def bootstrap_means(values: pd.DataFrame) -> pd.DataFrame:
    """Compute means over topics (rows), ignoring NaN, with 95 % percentile bootstrap intervals:
    rows of measures, `mean ci_low ci_high`; the interval is NaN for fewer than two topics or
    constant values."""
    rows = {}
    for measure, column in values.items():
        # so that samples do not depend on the order of topics
        defined = np.sort(column.dropna().to_numpy(float))
        mean = defined.mean() if len(defined) else np.nan
        low, high = np.nan, np.nan
        if len(defined) >= MIN_TOPICS and _varies(defined):
            low, high = _bootstrap_mean(defined)
        rows[measure] = {"mean": mean, "ci_low": low, "ci_high": high}
    return pd.DataFrame(rows).T


def compare_with_baseline(values: Mapping[str, pd.Series], baseline: str) -> pd.DataFrame:
    """Test each run's values of a measure per topic (NaN if undefined) against those of a baseline.

    Returns:
        One row per run but the baseline, over topics with values of both: `n_topics`, `difference`
        of means, two-sided p of the paired t-test (`p_t`) and the paired randomisation test
        (`p_randomisation`; Smucker, Allan, Carterette 2007), and both after Holm's correction for
        the number of tested runs (`p_t_holm`, `p_randomisation_holm`). p is NaN for fewer than two
        topics and if no topic differs; `p_t` also for constant differences, which have no variance.
    """
    rows = {}
    for name, column in values.items():
        if name == baseline:
            continue
        pairs = pd.DataFrame({"run": column, "baseline": values[baseline]}).dropna().to_numpy(float)
        differences = pairs[:, 0] - pairs[:, 1]
        row = {"n_topics": len(differences), "difference": np.nan}
        if len(differences):
            row["difference"] = differences.mean()
        if len(differences) >= MIN_TOPICS and (np.abs(differences) > TOLERANCE).any():
            row["p_randomisation"] = _test_by_randomisation(differences)
            if _varies(differences):
                row["p_t"] = float(ttest_rel(*pairs.T).pvalue)
        rows[name] = row
    names = ["n_topics", "difference", "p_t", "p_randomisation"]
    table = pd.DataFrame(rows, index=names).T.astype({"n_topics": int})
    for test in ("p_t", "p_randomisation"):
        table[f"{test}_holm"] = apply_holm_correction(table[test].to_numpy(float))
    return table


def describe_untested_runs(tests: pd.DataFrame) -> list[str]:
    """Return a sentence for each run that a test of `compare_with_baseline` leaves out."""
    lines = []
    for run, row in tests.iterrows():
        test = "test"
        if row["n_topics"] < MIN_TOPICS:
            cause = f"fewer than {MIN_TOPICS} topics"
        elif np.isnan(row["p_randomisation"]):
            cause = "no topic differs"
        elif np.isnan(row["p_t"]):
            test = "t-test"
            cause = "constant differences"
        else:
            continue
        lines.append(f"no {test} for {run}: {cause}; not counted in its Holm correction")
    return lines


def format_sample_size_warning(n_topics: int) -> str:
    """Return a warning if topics are fewer than MIN_TOPICS or MIN_TOPICS_FOR_P05, else ""."""
    if n_topics < MIN_TOPICS:
        topics = pluralise(n_topics, "topic")
        return f"{topics}: too few for intervals and tests (minimum {MIN_TOPICS})"
    if n_topics < MIN_TOPICS_FOR_P05:
        min_p = f"{2 / 2**n_topics:.3f}".lstrip("0")
        cause = f"the randomisation test cannot reach p < {min_p}; intervals are imprecise"
        return f"{n_topics} topics: {cause}"
    return ""


def apply_holm_correction(p: np.ndarray) -> np.ndarray:
    """Return p values (tests,) corrected by Holm's procedure (Holm 1979); NaN is no test."""
    corrected_p = np.full(len(p), np.nan)
    tested_rows = np.flatnonzero(~np.isnan(p))
    order = tested_rows[np.argsort(p[tested_rows], kind="stable")]
    corrected_p[order] = np.minimum(
        1.0, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1))
    )
    return corrected_p


def _varies(values: np.ndarray) -> bool:
    return bool(np.ptp(values) > TOLERANCE)


def _bootstrap_mean(values: np.ndarray) -> tuple[float, float]:
    options = {"n_resamples": N_SAMPLES, "confidence_level": CONFIDENCE, "method": "percentile"}
    batch = _split_samples(len(values))[0]
    interval = bootstrap(
        (values,), np.mean, rng=np.random.default_rng(SEED), batch=batch, **options
    ).confidence_interval
    return interval.low, interval.high


def _split_samples(n_topics: int) -> list[int]:
    """Return the sizes of batches of N_SAMPLES samples of `n_topics` values."""
    size = max(1, MAX_DRAWS // n_topics)
    return [min(size, N_SAMPLES - start) for start in range(0, N_SAMPLES, size)]


def _test_by_randomisation(differences: np.ndarray) -> float:
    """Return the two-sided p of the paired randomisation test of differences (topics,).

    p is the share of all assignments of signs to the absolute differences whose sum is at least as
    far from 0 as the observed one; of N_SAMPLES random ones and the observed one if more than
    MAX_EXACT_TOPICS topics differ. Reversed differences have the same p.
    """
    # sorted, so that random signs do not depend on the order of topics
    magnitudes = np.sort(np.abs(differences[np.abs(differences) > TOLERANCE]))
    total = magnitudes.sum()
    threshold = abs(differences.sum()) - TOLERANCE * max(1.0, total)
    if len(magnitudes) <= MAX_EXACT_TOPICS:
        sums = np.zeros(1)
        for magnitude in magnitudes:
            sums = np.concatenate([sums - magnitude, sums + magnitude])
        return float(np.mean(np.abs(sums) >= threshold))
    rng = np.random.default_rng(SEED)
    n_extreme = 1  # the observed signs
    for size in _split_samples(len(magnitudes)):
        is_positive = rng.integers(2, size=(size, len(magnitudes)), dtype=np.int8)
        sums = 2 * (is_positive @ magnitudes) - total
        n_extreme += int(np.sum(np.abs(sums) >= threshold))
    return n_extreme / (N_SAMPLES + 1)


def format_mark(difference: float, p: float) -> str:
    """Return ▲ for a significantly positive difference, ▼ for a negative one, else ""."""
    if not p < ALPHA:  # or NaN
        return ""
    return "▲" if difference > 0 else "▼"
