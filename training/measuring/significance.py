"""Paired tests of runs against a baseline over topics, corrected by Holm, and bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import bootstrap, permutation_test, ttest_rel

from submission.errors import counted

SAMPLES = 10_000  # of topics for an interval, of signs for the randomisation test
CONFIDENCE = 0.95
SEED = 0
FEWEST = 2  # topics for an interval or a test
TELLING = 6  # topics from which on a randomisation test can give p below .05: 2 of 2^6 signs are .031


def intervals(values: pd.DataFrame, seed: int = SEED) -> pd.DataFrame:
    """Compute means of measures over topics (rows), with 95 % bootstrap intervals (percentiles, over topics drawn anew).

    A topic on which a measure is not defined (NaN) is left out of its mean.

    Returns:
        One row a measure: `mean low high`; low and high are NaN for fewer than two topics, or where all have the same value.
    """
    rows = {}
    for measure, column in values.items():
        own = column.dropna().to_numpy(float)
        low, high = _interval(own, seed) if len(own) >= FEWEST and _varies(own) else (np.nan, np.nan)
        rows[measure] = {"mean": own.mean() if len(own) else np.nan, "low": low, "high": high}
    return pd.DataFrame(rows).T


def against_baseline(values: Mapping[str, pd.Series], baseline: str, seed: int = SEED) -> pd.DataFrame:
    """Test each run against a baseline, in one measure.

    Args:
        values: by the runs' names, the measure per topic, the same topics in all; NaN where it is not defined.
        baseline: one of the names.
        seed: of the randomisation.

    Returns:
        One row for each other run, over the topics on which the measure is defined for both: their number `topics`, the
        `difference` of the means, two-sided p of the paired t-test (`t`) and of the paired randomisation test on the
        difference of the means (`randomisation`; Smucker, Allan, Carterette 2007), and both after Holm's correction for the
        number of runs. p is NaN for fewer than two topics, or where all differences are the same.
    """
    rows = {}
    for name, column in values.items():
        if name == baseline:
            continue
        both = pd.DataFrame({"other": column, "own": values[baseline]}).dropna()
        other, own = both["other"].to_numpy(float), both["own"].to_numpy(float)
        tested = len(both) >= FEWEST and _varies(other - own)
        rows[name] = {
            "topics": len(both),
            "difference": (other - own).mean() if len(both) else np.nan,
            "t": float(ttest_rel(other, own).pvalue) if tested else np.nan,
            "randomisation": _randomisation(other, own, seed) if tested else np.nan,
        }
    table = pd.DataFrame(rows, index=["topics", "difference", "t", "randomisation"]).T.astype({"topics": int})
    for test in ("t", "randomisation"):
        table[f"{test} (Holm)"] = holm(table[test].to_numpy(float))
    return table


def limits(topics: int) -> str:
    """Say what so few topics cannot tell; "" if there are enough."""
    if topics < FEWEST:
        return f"{counted(topics, 'topic')}: no intervals and no tests, which take {FEWEST} or more"
    if topics < TELLING:
        least = f"{2 / 2**topics:.3f}".lstrip("0")
        return f"{topics} topics: no randomisation test can give p below {least}, intervals are rough"
    return ""


def holm(p: np.ndarray) -> np.ndarray:
    """Correct p values by Holm's step-down procedure (Holm 1979); NaN is no test, and stays."""
    result = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    result[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)))
    return result


def _varies(values: np.ndarray) -> bool:
    return bool(np.ptp(values) >= 1e-12)


def _interval(values: np.ndarray, seed: int) -> tuple[float, float]:
    drawn = bootstrap(
        (values,), np.mean, n_resamples=SAMPLES, confidence_level=CONFIDENCE, method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval  # fmt: skip
    return drawn.low, drawn.high


def _randomisation(one: np.ndarray, other: np.ndarray, seed: int) -> float:
    def statistic(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray((x - y).mean(axis=axis))

    test = permutation_test(
        (one, other), statistic, permutation_type="samples", vectorized=True, n_resamples=SAMPLES,
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    return float(test.pvalue)
