"""Test that the cards of shipped checkpoints equal newly rendered ones."""

from __future__ import annotations

import re
from typing import Any

import jinja2
import msgspec
import pandas as pd
import pytest

from submission.fusion.linear import LinearFusion
from submission.paths import CHECKPOINT_DIR
from submission.retrieval.lexical import LexicalParameters
from submission.storage.checkpoint_directory import CARD, CONFIG, METRICS, PROVENANCE, read_json
from training.cards import JUDGED_CREDIT, render_card
from training.formatting import CROSS_VALIDATED, IN_SAMPLE
from training.fusion.learned import render_card as fusion_card
from training.paths import RESULTS
from training.tuning.grid import SELECTION_MEASURES

SHIPPED = {path.parent.name: read_json(path) for path in sorted(CHECKPOINT_DIR.glob(f"*/{PROVENANCE}"))}
NETWORKS = [name for name, provenance in SHIPPED.items() if "training" in provenance.get("recipe", {})]
GRIDS = [name for name, provenance in SHIPPED.items() if "grid" in provenance]


def _shipped(name: str) -> tuple[str, dict[str, Any]]:
    return (CHECKPOINT_DIR / name / CARD).read_text(encoding="utf-8"), read_json(CHECKPOINT_DIR / name / METRICS)


@pytest.mark.parametrize("name", NETWORKS)
def test_network_card(name: str) -> None:
    text, metrics = _shipped(name)
    data = re.search(r"^(?:Trained|Validated) on (.+)\. Hashes", text, re.MULTILINE)
    description = re.search(r"^## Validation\n\n(.+?)\n\n\|", text, re.MULTILINE | re.DOTALL)
    assert data
    assert description

    assert render_card("network", provenance=SHIPPED[name], metrics=metrics, data=data[1], description=description[1]) == text


@pytest.mark.parametrize("name", GRIDS)
def test_grid_card(name: str) -> None:
    text, metrics = _shipped(name)
    best = msgspec.convert(read_json(CHECKPOINT_DIR / name / CONFIG), LexicalParameters)
    variables = {
        "name": name,
        "formula": best.describe(),
        "metrics": metrics,
        "provenance": SHIPPED[name],
        "data": JUDGED_CREDIT,
    }

    assert render_card("grid", **variables, measures=SELECTION_MEASURES, evaluations=(CROSS_VALIDATED, IN_SAMPLE)) == text


def test_fusion_card_and_missing_template_variable() -> None:
    text, metrics = _shipped("fusion")
    model = msgspec.convert(read_json(CHECKPOINT_DIR / "fusion" / CONFIG), LinearFusion)
    weights, learners = (pd.read_csv(RESULTS / f"fusion_{table}.csv") for table in ("weights", "learners"))

    assert fusion_card("fusion", model, weights, learners, metrics, SHIPPED["fusion"]) == text
    with pytest.raises(jinja2.UndefinedError, match="formula"):
        render_card("grid", name="n")
