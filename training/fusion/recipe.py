"""Read a learned fusion's recipe from TOML."""

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
from submission.rankings import DEEPEST
from submission.systems.catalogue import MEMBERS, SYSTEMS
from submission.systems.fusion import MadeWith
from training.paths import FUSIONS

Above0 = Annotated[float, Meta(gt=0, lt=LARGE)]
Number = Annotated[int, Meta(ge=1, le=10_000)]
DIGITS = 6  # further digits differ between machines and library versions
RIDGE = "ridge"  # the checkpoint's model


class Fit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the ridge regression and its labels."""

    alpha: Above0 = 1.0  # ridge penalty
    unjudged: Annotated[int, Meta(ge=0)] = 20  # unjudged pool documents per topic, sampled and labelled 0
    share: Annotated[float, Meta(ge=0, le=1)] = 0.5  # weight of the second qrels, if given
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0


class LambdaMART(msgspec.Struct, frozen=True, tag="lambdamart", tag_field="model", forbid_unknown_fields=True):
    """Settings of LambdaMART."""

    trees: Number = 100
    leaves: Annotated[int, Meta(ge=2, le=1000)] = 7  # maximum leaves per tree
    least: Number = 20  # minimum documents per leaf
    learning_rate: Above0 = 0.05


class RankNet(msgspec.Struct, frozen=True, tag="ranknet", tag_field="model", forbid_unknown_fields=True):
    """Settings of RankNet."""

    hidden: Annotated[int, Meta(ge=0, le=1000)] = 8  # hidden units; 0: linear model
    steps: Number = 300  # full-batch Adam steps
    learning_rate: Above0 = 0.01
    decay: Annotated[float, Meta(ge=0, lt=LARGE)] = 0.001  # L2 penalty of Adam


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The recipe of a learned fusion."""

    members: dict[str, Annotated[int, Meta(ge=0, le=DEEPEST)]]  # member: pool depth per topic
    baselines: Annotated[tuple[str, ...], Meta(min_length=1)]  # baseline systems
    tried: tuple[str, ...] = ()  # candidate members: evaluated one at a time, scoring only
    length: Above0 | None = None  # cap of the log-length feature; None: no such feature
    fit: Fit = Fit()
    compared: dict[str, LambdaMART | RankNet] = {}  # further learners, on the same folds

    def model(self, made_with: MadeWith, weights: Mapping[str, float], intercept: float) -> Linear:
        """Build the model from weights, features sorted by name; features without a weight are omitted.

        Raises:
            ValueError: If no remaining member contributes candidates.
        """
        rounded = {name: round(float(weight), DIGITS) for name, weight in weights.items()}
        members = tuple(
            Member(name, dict(made_with[name]), pool_depth, rounded[name])
            for name, pool_depth in sorted((dict.fromkeys(self.tried, 0) | self.members).items())
            if name in rounded
        )
        length = Length(self.length, rounded[LENGTH]) if self.length and LENGTH in rounded else None
        return Linear(__version__, round(float(intercept), DIGITS), members, length)

    @property
    def features(self) -> list[str]:
        """Sorted feature names."""
        return sorted(self.members) + [LENGTH] * (self.length is not None)


def read_recipe(name: str) -> Recipe:
    """Load a recipe by its name in training/configs/fusions or from a .toml file.

    Raises:
        UsageError: If the recipe is missing or names an unknown member or baseline.
    """
    file = Path(name) if name.endswith(".toml") else FUSIONS / f"{name}.toml"
    try:
        recipe = msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), Recipe)
        recipe.model({name: {} for name in recipe.members}, dict.fromkeys(recipe.features, 0.0), 0.0)
        if RIDGE in recipe.compared:
            raise ValueError(f"compared.{RIDGE}: this name is reserved for the checkpoint's model; choose another name")
        if len({*recipe.members, *recipe.tried}) < len(recipe.members) + len(recipe.tried):
            raise ValueError(f"tried {', '.join(recipe.tried)}: names must be unique and differ from the members")
    except FileNotFoundError:
        available = (path.stem for path in FUSIONS.glob("*.toml"))
        raise UsageError(f"unknown fusion '{short(name)}'; {nearest(name, available)}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: not a valid fusion recipe ({error}); see training/configs/fusions for examples") from None
    for kind, valid, names in (
        ("member", set(MEMBERS), [*recipe.members, *recipe.tried]),
        ("baseline", set(SYSTEMS), [*recipe.baselines]),
    ):
        for unknown in (name for name in names if name not in valid):
            raise UsageError(f"{file}: unknown {kind} '{short(unknown)}'; {nearest(unknown, valid)}")
    return recipe
