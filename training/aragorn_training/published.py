"""Locate results, and load the figures of the rebuilt publications, as printed."""

from functools import cache
from pathlib import Path

import pandas as pd

PACKAGE_DIR = Path(__file__).resolve().parent
RESULTS = (PACKAGE_DIR / "results").resolve()  # in a checkout, a symbolic link to training/results
PUBLISHED = RESULTS / "published"  # figures of the publications, and where ours are
STEP_SECONDS = RESULTS / "step_seconds.csv"  # of the steps of `all` on the excerpt
SPREAD = " ± "  # separates a figure from its standard deviation


@cache
def read_texts(file: Path) -> pd.DataFrame:
    """Read a CSV file without conversions; empty cells are empty strings."""
    return pd.read_csv(file, dtype=str, keep_default_na=False)


@cache
def load_figures(publication: str, item: str) -> dict[tuple[str, str], str]:
    """Load the figures of a publication's table or figure by row and measure, if any."""
    figures = read_texts(PUBLISHED / "figures.csv")
    selected = figures[(figures["publication"] == publication) & (figures["item"] == item)]
    return {
        (row, measure): theirs
        for row, measure, theirs in selected[["row", "measure", "theirs"]].to_numpy()
    }
