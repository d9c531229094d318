"""Means of measures that are undefined on some topics."""

import numpy as np

from aragorn_training.formatting import nan_mean, round_means


def test_undefined_values_are_excluded_from_means():
    values = np.array([[0.5, np.nan, 0.1], [np.nan, np.nan, 0.3]])
    assert round_means(["a", "b", "c"], nan_mean(values, 0)) == {"a": 0.5, "b": None, "c": 0.2}
    assert round_means(["first", "second"], nan_mean(values, 1)) == {"first": 0.3, "second": 0.3}
