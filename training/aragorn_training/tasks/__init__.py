"""Load recipes and find their tasks; a task's module has the name of its table in recipes."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from aragorn.errors import suggest
from aragorn.models.bert import BERTNetwork
from aragorn.models.taggers import Tagger
from aragorn.models.transformer import QUERY_LENGTH
from aragorn.registry import list_module_names, load_class
from aragorn.text.tokenisers import MaxLengths
from aragorn_training import configs
from aragorn_training.fitting.recipe import BaseRecipe, EncoderSettings, Recipe, TaskSpec

DEFAULT_TASK = "pairs"  # for recipes without a task table
# Config fields set from data, vocabulary or encoder
DERIVED_FIELDS = {"vocabulary", "tags", "bert", "cls", "sep", "frozen"}


def list_task_names() -> list[str]:
    """Return the names of all tasks, sorted."""
    return list_module_names(__path__)


def find_task_spec(keys: Collection[str]) -> type[TaskSpec]:
    """Return the spec class of the task table among a recipe's keys; ValueError for several."""
    tables = [name for name in list_task_names() if name in keys]
    if len(tables) > 1:
        raise ValueError(
            f"[{'] and ['.join(tables)}]: a recipe has at most one task table; remove all but one"
        )
    return load_class(__name__, tables[0] if tables else DEFAULT_TASK, TaskSpec)


def find_task_tables(network: str) -> list[str]:
    """Return the names of the task tables whose `supported_networks` include a network."""
    return [
        name
        for name in list_task_names()
        if network in load_class(__name__, name, TaskSpec).supported_networks
    ]


def load_recipe(name: str) -> Recipe:
    """Load a recipe by name or path; raise UsageError if it is missing or malformed."""
    path, values = configs.read("recipe", name)
    return build_recipe(path, values)


def build_recipe(path: Path, values: dict[str, Any]) -> Recipe:
    """Build a recipe from TOML values; raise UsageError with `path` if they are malformed."""
    with configs.locate_errors(path):
        spec = find_task_spec(values)
        table = spec.get_table_name()
        shared_values = {key: value for key, value in values.items() if key != table}
        settings = configs.convert(path, shared_values, BaseRecipe, other_keys=list_task_names())
        task = configs.convert(path, values.get(table, {}), spec, table)
        task.validate_recipe(settings)
        recipe = Recipe(**msgspec.structs.asdict(settings), task=task)
        _check_network_settings(recipe)
    return recipe


def _check_network_settings(recipe: Recipe) -> None:
    """Raise ValueError if a table or max_terms does not suit the recipe's network."""
    network_class = recipe.network_class
    hints = get_type_hints(network_class.Config, include_extras=True)
    hints = {name: hints[name] for name in hints if name not in DERIVED_FIELDS}
    for key, value in recipe.network.items():
        if key not in hints:
            raise ValueError(f"unknown key network.{key}; {suggest(key, hints)}")
        try:
            msgspec.convert(value, hints[key])
        except msgspec.ValidationError as error:
            raise ValueError(f"network.{key}: {error}") from None
    is_bert = issubclass(network_class, BERTNetwork)
    name = network_class.get_name()
    if is_bert and (size := recipe.lengths.query) > QUERY_LENGTH:
        cause = f"lengths.query is {size}; BERT networks read at most {QUERY_LENGTH}"
        raise ValueError(f"{cause}; lower it")
    if is_bert and recipe.max_terms:
        raise ValueError(f"{name} takes its vocabulary from its tokeniser; remove max_terms")
    if not is_bert and recipe.encoder != EncoderSettings():
        raise ValueError(f"{name} has no pretrained encoder; remove [encoder]")
    if issubclass(network_class, Tagger) and recipe.lengths != MaxLengths():
        raise ValueError("[lengths] is for rankers; set a tagger's lengths in [network]")
