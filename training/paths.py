"""Paths below training/."""

from __future__ import annotations

from submission.paths import PROJECT_DIR

TRAINING = PROJECT_DIR / "training"
RECIPES = TRAINING / "recipes"
GRIDS = TRAINING / "grids"
FUSIONS = TRAINING / "fusions"
MEASURED = TRAINING / "measured" / "means.csv"  # source of the generated README tables, written by `evaluate -o`
REPORT_TEMPLATE = TRAINING / "measuring" / "report.html.jinja"
