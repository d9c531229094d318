"""Tests that shipped checkpoints have the cards and recipes of new ones."""

import re

import msgspec
import pandas as pd
import pytest

from aragorn.paths import CHECKPOINT_DIR
from aragorn.storage.checkpoint_directory import CARD, CONFIG, METRICS, PROVENANCE, read_json
from aragorn.systems.lexical import LexicalParameters
from aragorn.systems.weighted_sum import WeightedSum
from aragorn_training.cards import render_card
from aragorn_training.commands.all import list_recipe_changes
from aragorn_training.configs import list_names
from aragorn_training.data.corpora import ARGS_ME, format_judged_credit
from aragorn_training.formatting import CROSS_VALIDATED, IN_SAMPLE
from aragorn_training.fusion.learned import describe_model
from aragorn_training.report.published import RESULTS
from aragorn_training.tasks import load_recipe
from aragorn_training.tuning.grid import SELECTION_MEASURES

PROVENANCES = {
    path.parent.name: read_json(path) for path in sorted(CHECKPOINT_DIR.glob(f"*/{PROVENANCE}"))
}
LICENCES = {name: values["training_data"]["licence"] for name, values in PROVENANCES.items()}
NETWORKS = [
    name for name, provenance in PROVENANCES.items() if "training" in provenance.get("recipe", {})
]
GRIDS = [name for name, provenance in PROVENANCES.items() if "grid" in provenance]


def render_shipped_card(name, text):
    """Render a shipped checkpoint's card; its data are described as in `text`."""
    directory = CHECKPOINT_DIR / name
    values = {"provenance": PROVENANCES[name], "metrics": read_json(directory / METRICS)}
    if name in NETWORKS:
        [data] = re.findall(r"^(?:Trained|Validated) on (.+)\. Hashes", text, re.MULTILINE)
        [description] = re.findall(r"^## Validation\n\n(.+?)\n\n\|", text, re.MULTILINE | re.DOTALL)
        return render_card("network", **values, data=data, description=description)
    if name in GRIDS:
        formula = msgspec.convert(read_json(directory / CONFIG), LexicalParameters).describe()
        values |= {"name": name, "formula": formula, "data": format_judged_credit(ARGS_ME)}
        values["evaluations"] = (CROSS_VALIDATED, IN_SAMPLE)
        return render_card("grid", **values, measures=SELECTION_MEASURES)
    model = msgspec.convert(read_json(directory / CONFIG), WeightedSum)
    tables = (pd.read_csv(RESULTS / f"fusion_{table}.csv") for table in ("weights", "learners"))
    values |= {"data": format_judged_credit(ARGS_ME), **describe_model(name, model, *tables)}
    return render_card("fusion", **values)


@pytest.mark.parametrize("name", [*NETWORKS, *GRIDS, "fusion"])
def test_shipped_card_equals_a_rendered_card(name):
    text = (CHECKPOINT_DIR / name / CARD).read_text(encoding="utf-8")
    card = render_shipped_card(name, text)
    encoder_licence = (
        "; layers of the encoder: Apache-2.0" if "encoder" in PROVENANCES[name] else ""
    )
    assert f" Licence of the weights: {LICENCES[name]}{encoder_licence}." in card
    assert text == card


def test_checkpoints_name_their_version_and_licence():
    assert all(provenance["version"] for provenance in PROVENANCES.values())
    expected = {"tfr_bert": "CC BY-SA", "targer_essays": "CC BY 4.0", "knrm": "CC BY 4.0"}
    assert {name: LICENCES[name] for name in expected} == expected


def test_recipe_changes_name_the_stored_settings_that_differ():
    stored = {"name": "knrm", "seed": 0, "validation": {"pool": "split", "rule": "random"}}
    recipe = {"seed": 1, "validation": {"pool": "collection", "rule": "random"}, "max_terms": 0}
    expected = ["seed was 0, is now 1", "validation.pool was split, is now collection"]
    assert list_recipe_changes(stored, recipe) == expected


@pytest.mark.parametrize("name", sorted({*list_names("recipe")} & {*PROVENANCES}))
def test_shipped_networks_were_trained_by_their_recipes(name):
    recipe = load_recipe(name).to_provenance()
    assert list_recipe_changes(PROVENANCES[name]["recipe"], recipe) == []
