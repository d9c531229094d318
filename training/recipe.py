"""A recipe: everything that decides what `fit` trains, read from a TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec

from submission.encoding import WordLengths
from submission.errors import UsageError, nearest
from submission.rankers import find

RECIPES = Path(__file__).parent / "recipes"


@dataclass(frozen=True)
class Optimisation:
    """How the network is trained (thesis, table 4.1)."""

    epochs: int = 10
    validations: int = 8  # an epoch
    learning_rate: float = 1e-3
    margin: float = 1.0
    global_batch_size: int = 32  # pairs between two steps of the optimiser
    micro_batch_size: int = 32  # pairs computed at a time
    validation_queries: int = 0  # a seeded part of them picks the checkpoint; 0: all. Final metrics are always of all.


@dataclass(frozen=True)
class Recipe:
    """A network, its sizes, its text lengths, its training."""

    ranker: str
    seed: int = 0
    terms: int = 0  # the vocabulary: so many most frequent words of what `embed` wrote; 0: all
    network: dict[str, Any] = field(default_factory=dict)  # fields of the ranker's Config
    lengths: WordLengths = field(default_factory=WordLengths)
    training: Optimisation = field(default_factory=Optimisation)


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
    _refuse_unknown(file, "", values, Recipe)
    _refuse_unknown(file, "lengths.", values.get("lengths", {}), WordLengths)
    _refuse_unknown(file, "training.", values.get("training", {}), Optimisation)
    try:
        recipe = msgspec.convert(values, Recipe)
    except msgspec.ValidationError as error:
        raise UsageError(f"{file}: {error}") from None
    _refuse_unknown(file, "network.", recipe.network, find(recipe.ranker).Config, hidden={"vocabulary"})
    _refuse_contradictions(file, recipe)
    return recipe


def _refuse_unknown(file: Path, place: str, values: object, kind: type[Any], hidden: set[str] | None = None) -> None:
    valid = {item.name for item in fields(kind)} - (hidden or set())
    if not isinstance(values, dict):
        raise UsageError(f"{file}: {place.rstrip('.')} must be a table")
    for key in values:
        if key not in valid:
            raise UsageError(f"{file}: unknown key {place}{key}; {nearest(key, valid)}")


def _refuse_contradictions(file: Path, recipe: Recipe) -> None:
    training = recipe.training
    for name in ("epochs", "validations", "global_batch_size", "micro_batch_size"):
        if getattr(training, name) < 1:
            raise UsageError(f"{file}: training.{name} is {getattr(training, name)}; expected 1 or more")
    if training.global_batch_size % training.micro_batch_size:
        raise UsageError(
            f"{file}: training.global_batch_size ({training.global_batch_size}) must be a multiple of "
            f"training.micro_batch_size ({training.micro_batch_size})"
        )
    if recipe.terms < 0:
        raise UsageError(f"{file}: terms is {recipe.terms}; expected 0 (all) or more")
    if training.learning_rate <= 0:
        raise UsageError(f"{file}: training.learning_rate is {training.learning_rate}; expected more than 0")
