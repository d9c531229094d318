"""The tasks that networks are trained on. One file is one task, found by its file name, which is its table's in a recipe."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from submission.enrichment.base import Enricher
from submission.errors import UsageError, nearest
from submission.rankers.bert import BERTNetwork
from submission.rankers.bert_config import QUERY_LENGTH
from submission.registry import class_in, names_in
from submission.text.tokenisers import Lengths
from training.fitting.recipe import Recipe, Settings, TaskSpec
from training.fitting.settings import PretrainedEncoder
from training.paths import RECIPES

DEFAULT = "pairs"  # of a recipe without a task's table
GIVEN = {"vocabulary", "tags", "bert", "cls", "sep", "frozen"}  # fields of a Config that data, vocabulary or encoder set


def names() -> list[str]:
    """List the names of all tasks, sorted."""
    return names_in(__path__)


def task_of(recipe: Collection[str]) -> type[TaskSpec]:
    """Return the task of a recipe, or of its form in a provenance, by its keys. Raises ValueError: it has two."""
    tables = [name for name in names() if name in recipe]
    if len(tables) > 1:
        raise ValueError(f"[{'] and ['.join(tables)}]: a network is trained on one of them; remove the others")
    return class_in(__name__, tables[0] if tables else DEFAULT, TaskSpec)


def read_recipe(name: str) -> Recipe:
    """Read a recipe by its name in training/recipes or by a path.

    Raises:
        UsageError: no such recipe, malformed TOML, an unknown key, a value of another type, settings that contradict.
    """
    file = Path(name) if name.endswith(".toml") else RECIPES / f"{name}.toml"
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError:
        raise UsageError(f"no recipe {name!r}; {nearest(name, (path.stem for path in RECIPES.glob('*.toml')))}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: malformed TOML ({error})") from None
    try:
        spec = task_of(values)
        table = values.pop(spec.table(), {})
        _refuse_unknown("", values, Settings, {*names()})
        _refuse_unknown(f"{spec.table()}.", table, spec)
        settings = msgspec.convert(values, Settings)
        recipe = Recipe(**msgspec.structs.asdict(settings), task=_converted(table, spec))
        recipe.task.check(settings)
        _check_network(recipe)
    except ValueError as error:
        raise UsageError(f"{file}: {error}") from None
    return recipe


def _converted(table: object, spec: type[TaskSpec]) -> TaskSpec:
    """Convert a recipe's table. Raises ValueError."""
    try:
        return msgspec.convert(table, spec)
    except msgspec.ValidationError as error:
        raise ValueError(str(error).replace("`$", f"`$.{spec.table()}")) from None


def _refuse_unknown(place: str, values: object, kind: Any, others: Collection[str] = ()) -> None:
    """Raise ValueError, which names the nearest key, where values have a key that a kind of table, or one within, has not."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{place.rstrip('.')} must be a table")
    types = {name: hint for name, hint in get_type_hints(kind).items() if name in _fields(kind)}
    for key, value in values.items():
        if key not in types:
            raise ValueError(f"unknown key {place}{key}; {nearest(key, {*types, *others})}")
        for table in get_args(types[key]) or (types[key],):  # of one that may be None
            if _fields(table):
                _refuse_unknown(f"{place}{key}.", value, table)


def _fields(kind: Any) -> tuple[str, ...]:
    """List the fields of a struct or a dataclass; nothing for other types."""
    return getattr(kind, "__struct_fields__", ()) or tuple(getattr(kind, "__dataclass_fields__", ()))


def _check_network(recipe: Recipe) -> None:
    """Raise ValueError where sizes, lengths or encoder are none that the network can have."""
    network_class = recipe.network_class
    types = {name: hint for name, hint in get_type_hints(network_class.Config).items() if name not in GIVEN}
    for key, value in recipe.network.items():
        if key not in types:
            raise ValueError(f"unknown key network.{key}; {nearest(key, types)}")
        try:
            msgspec.convert(value, types[key])
        except msgspec.ValidationError as error:
            raise ValueError(f"network.{key}: {error}") from None
    for name in ("query", "premise"):
        if getattr(recipe.lengths, name) < 1:
            raise ValueError(f"lengths.{name} is {getattr(recipe.lengths, name)}; expected 1 or more")
    is_bert = issubclass(network_class, BERTNetwork)
    if is_bert and recipe.lengths.query > QUERY_LENGTH:
        raise ValueError(f"lengths.query is {recipe.lengths.query}; a BERT network's query has {QUERY_LENGTH} positions")
    if recipe.terms if is_bert else recipe.encoder != PretrainedEncoder():
        what = "terms: its tokenizer decides" if is_bert else "encoder"
        raise ValueError(f"{network_class.name()} has no {what}; remove it")
    if issubclass(network_class, Enricher) and recipe.lengths != Lengths():
        raise ValueError("lengths are a ranker's; an enricher's are in [network]")
