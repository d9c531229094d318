"""Render the README of a learned fusion's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from submission.fusion.linear import LinearFusion
from training import cards
from training.evaluation.evaluate import HEADLINE_MEASURES
from training.formatting import CROSS_VALIDATED, IN_SAMPLE
from training.fusion.recipe import RIDGE

ABLATION_PLOT = "ablation.png"
EVALUATIONS = (CROSS_VALIDATED, IN_SAMPLE)


def render_card(
    name: str,
    model: LinearFusion,
    weights: pd.DataFrame,
    learners: pd.DataFrame,
    metrics: Mapping[str, Any],
    provenance: Mapping[str, Any],
) -> str:
    """Render the README as Markdown from the tables `weights` and `learners` of `fit_fusion`."""
    return cards.render_card(
        "fusion",
        name=name,
        features=model.feature_description,
        weights=weights.to_dict("records"),
        pool_depths={member.name: member.pool_depth for member in model.members},
        checkpoints={member.name: member.checkpoints for member in model.members},
        learners={learner: dict(_format_cells(rows)) for learner, rows in learners.groupby("learner", sort=False)},
        metrics=metrics,
        evaluations=EVALUATIONS,
        measures=HEADLINE_MEASURES,
        ablation_plot=ABLATION_PLOT,
        data=cards.JUDGED_CREDIT,
        provenance=provenance,
    )


def _format_cells(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Format each measure's mean and, for learners other than ridge regression, the interval of the difference from it."""
    return [
        (str(row.measure), f"{row.mean:.3f}" + ("" if row.learner == RIDGE else f" ({row.ci_low:+.3f} to {row.ci_high:+.3f})"))
        for row in rows.itertuples()
    ]
