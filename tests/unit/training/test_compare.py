"""Test the comparison of recipes with those that recorded no candidates."""

import pytest
from msgspec.structs import replace

from aragorn.paths import CHECKPOINT_DIR
from aragorn.storage.checkpoint_directory import PROVENANCE, read_json
from aragorn_training.commands.compare import list_recipe_changes
from aragorn_training.configs import list_names
from aragorn_training.data.candidates import read_candidate_settings
from aragorn_training.tasks import load_recipe

SHIPPED = [name for name in list_names("recipe") if (CHECKPOINT_DIR / name).exists()]


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


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_networks_differ_from_their_recipes_in_the_candidates_only(name):
    stored = read_json(CHECKPOINT_DIR / name / PROVENANCE)["recipe"]
    recipe = load_recipe(name)
    changes = list_recipe_changes(stored, recipe.to_provenance())
    assert {change.split()[0] for change in changes} <= {"validation.pool", "validation.rule"}
    as_stored = replace(recipe, validation=read_candidate_settings(stored))
    assert list_recipe_changes(stored, as_stored.to_provenance()) == []
