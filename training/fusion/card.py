"""Render the README of a learned fusion's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from submission.fusion.linear import Linear
from training import cards
from training.evaluation.evaluate import HEADLINES
from training.fusion.recipe import RIDGE

PICTURE = "ablation.png"
WAYS = ("cross-validated", "on the topics that it was fitted on")


def card(
    name: str,
    model: Linear,
    weights: pd.DataFrame,
    models: pd.DataFrame,
    metrics: Mapping[str, Any],
    provenance: Mapping[str, Any],
) -> str:
    """Render the README as Markdown from the tables `weights` and `models` of `training.fusion.learned.fuse`."""
    return cards.card(
        "fusion",
        name=name,
        features=model.added,
        weights=weights.to_dict("records"),
        pool_depths={member.name: member.best for member in model.members},
        checkpoints={member.name: member.checkpoints for member in model.members},
        models={learner: dict(_cells(rows)) for learner, rows in models.groupby("model", sort=False)},
        metrics=metrics,
        evaluations=WAYS,
        measures=HEADLINES,
        ablation_plot=PICTURE,
        data=cards.JUDGED,
        provenance=provenance,
    )


def _cells(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Format each measure's mean and, for learners other than ridge regression, the interval of the difference from it."""
    return [
        (str(row.measure), f"{row.mean:.3f}" + ("" if row.model == RIDGE else f" ({row.low:+.3f} to {row.high:+.3f})"))
        for row in rows.itertuples()
    ]
