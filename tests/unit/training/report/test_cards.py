"""Tests that shipped checkpoints have the cards and recipes of new ones."""

import re

import msgspec
import pandas as pd
import pytest
from msgspec.structs import replace

from aragorn.paths import CHECKPOINT_DIR
from aragorn.storage.checkpoint_directory import CARD, CONFIG, METRICS, PROVENANCE, read_json
from aragorn.systems.lexical import LexicalParameters
from aragorn.systems.weighted_sum import WeightedSum
from aragorn_training.cards import render_card
from aragorn_training.commands.all import list_recipe_changes
from aragorn_training.configs import list_names
from aragorn_training.data.corpora import ARGS_ME, format_judged_credit
from aragorn_training.data.distant_supervision import read_candidate_settings
from aragorn_training.formatting import CROSS_VALIDATED, IN_SAMPLE
from aragorn_training.fusion.learned import describe_model
from aragorn_training.report.published import RESULTS
from aragorn_training.tasks import load_recipe
from aragorn_training.tuning.grid import SELECTION_MEASURES

PROVENANCES = {
    path.parent.name: read_json(path) for path in sorted(CHECKPOINT_DIR.glob(f"*/{PROVENANCE}"))
}
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
    # a checkpoint made before provenances named a licence was trained on args.me
    licence = PROVENANCES[name]["training_data"].get("licence", "CC BY 4.0")
    encoder_licence = (
        "; layers of the encoder: Apache-2.0" if "encoder" in PROVENANCES[name] else ""
    )
    card = render_shipped_card(name, text)
    licence = f" Licence of the weights: {licence}{encoder_licence}."
    assert licence in card
    # a card states no licence if its checkpoint was made before cards did
    assert text in (card, card.replace(licence, ""))


def test_licences_of_shipped_checkpoints():
    licences = {
        name: provenance["training_data"].get("licence") for name, provenance in PROVENANCES.items()
    }
    assert licences["tfr_bert"] == "CC BY-SA"
    assert (licences["targer_essays"], licences["knrm"]) == ("CC BY 4.0", "CC BY 4.0")


def test_unrecorded_candidates_differ_from_the_default():
    stored = {"name": "knrm", "seed": 0}
    settings = {"pool": "collection", "rule": "random", "log_all": False}
    recipe = {"seed": 0, "validation": settings, "max_terms": 0}
    expected = [
        "validation.pool was split, is now collection",
        "validation.rule was least_similar, is now random",
    ]
    assert list_recipe_changes(stored, recipe) == expected
    earlier = {"pool": "split", "rule": "least_similar", "log_all": False}
    assert list_recipe_changes(stored, recipe | {"validation": earlier}) == []
    actual = list_recipe_changes(stored | {"validation": settings}, recipe | {"seed": 1})
    assert actual == ["seed was 0, is now 1"]


@pytest.mark.parametrize("name", sorted({*list_names("recipe")} & {*PROVENANCES}))
def test_shipped_networks_differ_from_their_recipes_in_the_candidates_only(name):
    stored = PROVENANCES[name]["recipe"]
    recipe = load_recipe(name)
    changes = list_recipe_changes(stored, recipe.to_provenance())
    assert {change.split()[0] for change in changes} <= {"validation.pool", "validation.rule"}
    as_stored = replace(recipe, validation=read_candidate_settings(stored))
    assert list_recipe_changes(stored, as_stored.to_provenance()) == []
