"""A learned fusion's README: its weights, what they are worth, what they were fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from submission.fusion.linear import Linear
from training import cards
from training.fusing.recipe import RIDGE
from training.measuring.evaluate import HEADLINES

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
    """Return the card as Markdown, from the tables `weights` and `models` of `training.fuse.fuse`."""
    return cards.card(
        "fusion",
        name=name,
        features=model.added,
        weights=weights.to_dict("records"),
        pool_depths={member.name: member.best for member in model.members},
        checkpoints={member.name: member.checkpoints for member in model.members},
        models={other: dict(_cells(own)) for other, own in models.groupby("model", sort=False)},
        metrics=metrics,
        evaluations=WAYS,
        measures=HEADLINES,
        ablation_plot=PICTURE,
        data=cards.JUDGED,
        provenance=provenance,
    )


def _cells(of_model: pd.DataFrame) -> list[tuple[str, str]]:
    """Write each measure's mean; except for the ridge regression itself, with the interval of the difference to it."""
    return [
        (str(row.measure), f"{row.mean:.3f}" + ("" if row.model == RIDGE else f" ({row.low:+.3f} to {row.high:+.3f})"))
        for row in of_model.itertuples()
    ]
