"""Paths of training's own files."""

from __future__ import annotations

from submission.paths import ROOT

TRAINING = ROOT / "training"
RECIPES = TRAINING / "recipes"
GRIDS = TRAINING / "grids"
FUSIONS = TRAINING / "fusions"
MEASURED = TRAINING / "measured" / "means.csv"  # what `evaluate -o` wrote for the tables in READMEs
REPORT = TRAINING / "measuring" / "report.html.jinja"
