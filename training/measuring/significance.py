"""Whether runs differ from a baseline by more than chance: paired tests over topics, corrected, and bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import bootstrap, permutation_test, ttest_rel

SAMPLES = 10_000  # of topics for an interval, of signs for the randomisation test
CONFIDENCE = 0.95
SEED = 0


def intervals(values: pd.DataFrame, seed: int = SEED) -> pd.DataFrame:
    """Means of measures over topics (rows), with 95 % bootstrap intervals (percentiles, over topics that are drawn anew).

    Returns:
        One row a measure: `mean low high`.
    """
    rows = {}
    for measure, column in values.items():
        drawn = bootstrap(
            (column.to_numpy(),), np.mean, n_resamples=SAMPLES, confidence_level=CONFIDENCE, method="percentile",
            rng=np.random.default_rng(seed),
        ).confidence_interval  # fmt: skip
        rows[measure] = {"mean": column.mean(), "low": drawn.low, "high": drawn.high}
    return pd.DataFrame(rows).T


def against_baseline(values: Mapping[str, pd.Series], baseline: str, seed: int = SEED) -> pd.DataFrame:
    """Test each run against a baseline, in one measure.

    Args:
        values: by the runs' names, the measure per topic, the same topics in all.
        baseline: one of the names.
        seed: of the randomisation.

    Returns:
        One row for each other run: `difference` of the means, two-sided p of the paired t-test (`t`) and of the paired
        randomisation test on the difference of the means (`randomisation`; Smucker, Allan, Carterette 2007), and both after
        Holm's correction for the number of runs.
    """
    own = values[baseline].to_numpy()
    rows = {}
    for name, column in values.items():
        if name == baseline:
            continue
        other = column.to_numpy()
        rows[name] = {
            "difference": (other - own).mean(),
            "t": _t(other, own),
            "randomisation": _randomisation(other, own, seed),
        }
    table = pd.DataFrame(rows).T
    for test in ("t", "randomisation"):
        table[f"{test} (Holm)"] = holm(table[test].to_numpy())
    return table


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's step-down correction of p values (Holm 1979)."""
    order = np.argsort(p, kind="stable")
    corrected = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    result = np.empty_like(corrected)
    result[order] = corrected
    return result


def _t(one: np.ndarray, other: np.ndarray) -> float:
    if np.ptp(one - other) < 1e-12:  # no variance: the test is not defined
        return 1.0 if np.allclose(one, other, rtol=0, atol=1e-12) else 0.0
    return float(ttest_rel(one, other).pvalue)


def _randomisation(one: np.ndarray, other: np.ndarray, seed: int) -> float:
    def statistic(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.asarray((x - y).mean(axis=axis))

    test = permutation_test(
        (one, other), statistic, permutation_type="samples", vectorized=True, n_resamples=SAMPLES,
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    return float(test.pvalue)
