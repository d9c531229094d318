"""Average measures that are undefined on some topics, and format them for tables, JSON and
templates."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

# Keys in metrics.json: means at the settings selected on the other folds, and at those selected on
# all topics.
CROSS_VALIDATED = "cross-validated"
IN_SAMPLE = "in-sample"
DASH = "–"  # noqa: RUF001 of undefined values


def nan_mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Average along an axis, ignoring NaN; return NaN if all values are NaN."""
    n_defined = (~np.isnan(values)).sum(axis=axis)
    means: np.ndarray = np.where(
        n_defined > 0, np.nansum(values, axis=axis) / np.maximum(n_defined, 1), np.nan
    )
    return means


def round_means(measures: Sequence[str], means: np.ndarray) -> dict[str, float | None]:
    """Return means by measure, rounded to four decimal places; undefined means become None."""
    return {
        measure: None if np.isnan(mean) else round(float(mean), 4)
        for measure, mean in zip(measures, means, strict=True)
    }


def format_value(value: float | None, digits: int = 3) -> str:
    """Format a value with `digits` decimal places; None or NaN becomes a dash."""
    return DASH if value is None or np.isnan(value) else f"{value:.{digits}f}"


def create_environment(file: str, autoescape: bool, **settings: Any) -> jinja2.Environment:
    """Create the environment of templates in a module's directory; unknown variables are errors."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(file).parent),
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        **settings,
    )
