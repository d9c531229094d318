"""A fusion's recipe: its members, and how their weights are fitted, read from a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from submission import __version__
from submission.errors import UsageError, nearest, short
from submission.fusion.linear import LARGE, LENGTH, Length, Linear, Member
from submission.lists import DEEPEST
from submission.systems.catalogue import MEMBERS, SYSTEMS
from submission.systems.fusion import MadeWith
from training.paths import FUSIONS

Above0 = Annotated[float, Meta(gt=0, lt=LARGE)]
Number = Annotated[int, Meta(ge=1, le=10_000)]
DIGITS = 6  # of a weight: beyond them libraries and machines differ
RIDGE = "ridge"  # the model of a fusion's checkpoint, by the name that others are compared with


class Fit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of the ridge regression."""

    alpha: Above0 = 1.0  # ridge's
    unjudged: Annotated[int, Meta(ge=0)] = 20  # documents of a topic's pool that nobody judged, drawn to be fitted to as 0
    share: Annotated[float, Meta(ge=0, le=1)] = 0.5  # of the second judgments in the labels, where there are any
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0


class LambdaMART(msgspec.Struct, frozen=True, tag="lambdamart", tag_field="model", forbid_unknown_fields=True):
    """Trees that are added up, see training/fusing/lambdamart.py."""

    trees: Number = 100
    leaves: Annotated[int, Meta(ge=2, le=1000)] = 7  # of a tree, at most
    least: Number = 20  # documents in a leaf
    learning_rate: Above0 = 0.05


class RankNet(msgspec.Struct, frozen=True, tag="ranknet", tag_field="model", forbid_unknown_fields=True):
    """A small network, see training/fusing/ranknet.py."""

    hidden: Annotated[int, Meta(ge=0, le=1000)] = 8  # units of its hidden layer; 0: it has none and is a weighted sum
    steps: Number = 300  # of Adam, each on all pairs
    learning_rate: Above0 = 0.01
    decay: Annotated[float, Meta(ge=0, lt=LARGE)] = 0.001  # of the weights, as Adam adds it to the gradient


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The recipe of a learned fusion."""

    members: dict[str, Annotated[int, Meta(ge=0, le=DEEPEST)]]  # of each: its best documents that join the pool, a topic
    baselines: Annotated[tuple[str, ...], Meta(min_length=1)]  # systems that it is compared with
    tried: tuple[str, ...] = ()  # other members, which only score: what the fusion would be worth with each of them
    length: Above0 | None = None  # so much of the logarithm of the number of words counts; None: it is no feature
    fit: Fit = Fit()
    compared: dict[str, LambdaMART | RankNet] = {}  # models beside the ridge regression, by the same folds

    def model(self, made_with: MadeWith, weights: Mapping[str, float], intercept: float) -> Linear:
        """The model with such weights, features by their names' order; those without a weight are left out.

        Raises:
            ValueError: no member that is left proposes documents.
        """
        rounded = {name: round(float(weight), DIGITS) for name, weight in weights.items()}
        members = tuple(
            Member(name, dict(made_with[name]), best, rounded[name])
            for name, best in sorted((dict.fromkeys(self.tried, 0) | self.members).items())
            if name in rounded
        )
        length = Length(self.length, rounded[LENGTH]) if self.length and LENGTH in rounded else None
        return Linear(__version__, round(float(intercept), DIGITS), members, length)

    @property
    def features(self) -> list[str]:
        """The names of the features in their order."""
        return sorted(self.members) + [LENGTH] * (self.length is not None)


def read_recipe(name: str) -> Recipe:
    """A recipe by its name in training/fusions, or a .toml file.

    Raises:
        UsageError: there is none, or it names what is not there.
    """
    file = Path(name) if name.endswith(".toml") else FUSIONS / f"{name}.toml"
    try:
        recipe = msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), Recipe)
        recipe.model({name: {} for name in recipe.members}, dict.fromkeys(recipe.features, 0.0), 0.0)
        if RIDGE in recipe.compared:
            raise ValueError(f"compared.{RIDGE}: it is what others are compared with; expected another name")
        if len({*recipe.members, *recipe.tried}) < len(recipe.members) + len(recipe.tried):
            raise ValueError(f"tried {', '.join(recipe.tried)}: expected different names, and none of a member")
    except FileNotFoundError:
        there = (path.stem for path in FUSIONS.glob("*.toml"))
        raise UsageError(f"no fusion '{short(name)}'; {nearest(name, there)}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: no fusion ({error}); see training/fusions for examples") from None
    for what, valid, given in (
        ("member", set(MEMBERS), [*recipe.members, *recipe.tried]),
        ("baseline", set(SYSTEMS), [*recipe.baselines]),
    ):
        for one in given:
            if one not in valid:
                raise UsageError(f"{file}: unknown {what} '{short(one)}'; {nearest(one, valid)}")
    return recipe
