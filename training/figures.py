"""Means of measures that are not defined on all topics, and figures as tables and JSON have them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# In the metrics of a checkpoint: means over topics by a choice on other folds, and by a choice on all of them.
CROSS_VALIDATED, CHOSEN_ON = "cross-validated", "on the topics that it was chosen on"


def defined_mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Average along an axis what is defined; NaN where nothing is."""
    number = (~np.isnan(values)).sum(axis=axis)
    means: np.ndarray = np.where(number > 0, np.nansum(values, axis=axis) / np.maximum(number, 1), np.nan)
    return means


def rounded(measures: Sequence[str], means: np.ndarray) -> dict[str, float | None]:
    """Map measures to their means with four digits; None, which JSON has, stands for one that is not defined."""
    return {measure: None if np.isnan(mean) else round(float(mean), 4) for measure, mean in zip(measures, means, strict=True)}


def shown(figure: float | None, digits: int = 3) -> str:
    """Write a figure for people; a dash stands for one that is not defined."""
    return "–" if figure is None or np.isnan(figure) else f"{figure:.{digits}f}"  # noqa: RUF001 a dash
