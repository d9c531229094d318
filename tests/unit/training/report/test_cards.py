"""Cards of the checkpoints that are shipped are what their templates make of the facts beside them."""

from __future__ import annotations

import re
from typing import Any

import jinja2
import msgspec
import pandas as pd
import pytest

from submission.fusion.linear import Linear
from submission.paths import CHECKPOINTS
from submission.retrieval.parameters import Parameters
from submission.storage.checkpoint_directory import CARD, CONFIG, METRICS, PROVENANCE, load_json
from training.cards import JUDGED, card
from training.formatting import CHOSEN_ON, CROSS_VALIDATED
from training.fusion.card import card as fusion_card
from training.paths import MEASURED
from training.tuning.grid import MEASURES

SHIPPED = {path.parent.name: load_json(path) for path in sorted(CHECKPOINTS.glob(f"*/{PROVENANCE}"))}
NETWORKS = [name for name, provenance in SHIPPED.items() if "training" in provenance.get("recipe", {})]
GRIDS = [name for name, provenance in SHIPPED.items() if "grid" in provenance]


def _shipped(name: str) -> tuple[str, dict[str, Any]]:
    return (CHECKPOINTS / name / CARD).read_text(encoding="utf-8"), load_json(CHECKPOINTS / name / METRICS)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_networks_card(name: str) -> None:
    text, metrics = _shipped(name)
    data = re.search(r"^(?:Trained|Validated) on (.+)\. Source files", text, re.MULTILINE)
    measured = re.search(r"^## Validation\n\n(.+?)\n\n- ", text, re.MULTILINE | re.DOTALL)
    assert data
    assert measured

    assert card("network", provenance=SHIPPED[name], metrics=metrics, data=data[1], measured=measured[1]) == text


@pytest.mark.parametrize("name", GRIDS)
def test_a_grids_card(name: str) -> None:
    text, metrics = _shipped(name)
    best = msgspec.convert(load_json(CHECKPOINTS / name / CONFIG), Parameters)
    facts = {"name": name, "formula": best.formula(), "metrics": metrics, "provenance": SHIPPED[name], "data": JUDGED}

    assert card("grid", **facts, measures=MEASURES, evaluations=(CROSS_VALIDATED, CHOSEN_ON)) == text


def test_the_fusions_card_and_a_fact_that_is_missing_which_is_no_empty_place() -> None:
    text, metrics = _shipped("fusion")
    model = msgspec.convert(load_json(CHECKPOINTS / "fusion" / CONFIG), Linear)
    weights, models = (pd.read_csv(MEASURED.parent / f"fusion_{table}.csv") for table in ("weights", "models"))

    assert fusion_card("fusion", model, weights, models, metrics, SHIPPED["fusion"]) == text
    with pytest.raises(jinja2.UndefinedError, match="formula"):
        card("grid", name="n")
