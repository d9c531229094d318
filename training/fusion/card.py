"""Render the README of a learned fusion's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from submission.fusion.linear import LinearFusion
from training import cards
from training.evaluation.evaluate import HEADLINE_MEASURES
from training.fusion.recipe import RIDGE

ABLATION_PLOT = "ablation.png"
WAYS = ("cross-validated", "on the topics that it was fitted on")


def render_card(
    name: str,
    model: LinearFusion,
    weights: pd.DataFrame,
    models: pd.DataFrame,
    metrics: Mapping[str, Any],
    provenance: Mapping[str, Any],
) -> str:
    """Render the README as Markdown from the tables `weights` and `models` of `training.fusion.learned.fuse`."""
    return cards.render_card(
        "fusion",
        name=name,
        features=model.feature_description,
        weights=weights.to_dict("records"),
        pool_depths={member.name: member.pool_depth for member in model.members},
        checkpoints={member.name: member.checkpoints for member in model.members},
        models={learner: dict(_format_cells(rows)) for learner, rows in models.groupby("model", sort=False)},
        metrics=metrics,
        evaluations=WAYS,
        measures=HEADLINE_MEASURES,
        ablation_plot=ABLATION_PLOT,
        data=cards.JUDGED_CREDIT,
        provenance=provenance,
    )


def _format_cells(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Format each measure's mean and, for learners other than ridge regression, the interval of the difference from it."""
    return [
        (str(row.measure), f"{row.mean:.3f}" + ("" if row.model == RIDGE else f" ({row.low:+.3f} to {row.high:+.3f})"))
        for row in rows.itertuples()
    ]
