"""A learned fusion's README: its weights, what they are worth, what they were fitted on. Written from the facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from submission.fusion.linear import Linear
from training.fusing.recipe import RIDGE
from training.measuring.evaluate import HEADLINES
from training.measuring.figures import shown

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
    """The card as Markdown."""
    best = {member.name: member.best for member in model.members}
    checkpoints = {member.name: member.checkpoints for member in model.members}
    rows = [
        f"| {feature} | {weight:.4f} | {low:.4f} to {high:.4f} | {best.get(feature) or ''} | "
        f"{', '.join(f'{key} {value[:12]}' for key, value in checkpoints.get(feature, {}).items())} |"
        for feature, weight, low, high in weights[["feature", "weight", "low", "high"]].to_numpy()
    ]
    lines = [
        f"# {name}",
        "",
        f"A weighted sum of {model.added}, each less its mean over the topic's pool,",
        "divided by its deviation there. The pool are the members' best documents together, as many of each as",
        f"the table says. Fitted by ridge regression; made by `python -m training fuse {name}`.",
        "",
        "| feature | weight | 95 % of drawn topics | documents in the pool | checkpoints |",
        "|---|---|---|---|---|",
        *rows,
        "",
        f"On {metrics['topics']} topics; cross-validated: each by weights that were fitted without its fold. The members' own",
        "parameters were chosen on all topics.",
        "",
        f"| judgments | | {' | '.join(HEADLINES)} |",
        "|---|---|" + "---|" * len(HEADLINES),
        *(
            f"| {label} | {way} | {' | '.join(shown(found[measure]) for measure in HEADLINES)} |"
            for way in WAYS
            for label, found in metrics[way].items()
        ),
        "",
        *_models(models),
        f"`{PICTURE}` shows what is lost without each feature.",
        "",
        "Fitted on args.me arguments (Webis, CC BY 4.0) and Touché's judgments (SHA-256):",
        "",
        *(f"- `{file}` {digest}" for file, digest in provenance["trained on"]["input"].items()),
    ]
    return "\n".join(lines) + "\n"


def _models(table: pd.DataFrame) -> list[str]:
    """The other models beside the ridge regression; no lines if there are none."""
    if table.empty:
        return []
    cells = {
        (row.measure, row.model): f"{row.mean:.3f}" + ("" if row.model == RIDGE else f" ({row.low:+.3f} to {row.high:+.3f})")
        for row in table.itertuples()
    }
    return [
        "Other models by the same folds; in brackets the difference to the ridge regression, 95 % of drawn topics:",
        "",
        f"| model | {' | '.join(HEADLINES)} |",
        "|---|" + "---|" * len(HEADLINES),
        *(f"| {name} | {' | '.join(cells[measure, name] for measure in HEADLINES)} |" for name in table["model"].unique()),
        "",
    ]
