"""Load the figures of the rebuilt publications, as printed, from training/results/published."""

from functools import cache
from pathlib import Path

import pandas as pd

from aragorn_training.paths import PUBLISHED

SPREAD = " ± "  # separates a figure from its standard deviation


@cache
def read_figures(file: Path) -> pd.DataFrame:
    """Read a publication's figures as strings, as `item row measure theirs`; `item` is a table or
    figure."""
    return pd.read_csv(file, dtype=str, keep_default_na=False)


@cache
def load_figures(publication: str, item: str) -> dict[tuple[str, str], str]:
    """Load the figures of a publication's table or figure by row and measure; empty if the
    publication has no such item."""
    table = read_figures(PUBLISHED / f"{publication}.csv")
    rows = table.loc[table["item"] == item, ["row", "measure", "theirs"]]
    return {(row, measure): theirs for row, measure, theirs in rows.to_numpy()}
