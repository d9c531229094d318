"""Tests of the tables of published experiments."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from submission.errors import InputError
from training.paths import RESULTS
from training.report.experiments import (
    format_deepct_table,
    format_quality_table,
    format_steps_table,
    format_sweeps_table,
    format_trials_table,
)

TABLES = [
    (format_trials_table, "trials_gru.csv", "value"),
    (format_trials_table, "trials_means.csv", "mean"),
    (format_deepct_table, "trials_deepct.csv", "value"),
    (format_quality_table, "argument_quality_folds.csv", "mean"),
    (format_sweeps_table, "augmented_sbert_sweeps.csv", "test"),
    (format_steps_table, "augmented_sbert_sweeps.csv", "dev"),
]


@pytest.mark.parametrize(("format_table", "name", "column"), TABLES)
def test_tables_show_the_values_of_their_csv(
    format_table: Callable[[Path], str], name: str, column: str, tmp_path: Path
) -> None:
    results = Path(shutil.copytree(RESULTS, tmp_path / "results"))
    table = pd.read_csv(results / name)
    table.assign(**{column: table[column] * 0 + 12.3}).to_csv(results / name, index=False)
    assert "12.3" not in format_table(RESULTS)
    assert format_table(results).count("12.3") >= 10
    (results / name).unlink()
    with pytest.raises(InputError, match=f"{name}: cannot read results"):
        format_table(results)
