"""Load a learned fusion's recipe from TOML."""

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from aragorn import __version__
from aragorn.bounds import NonNegative, NonNegativeInt, Positive, Share
from aragorn.errors import abbreviate, suggest
from aragorn.rankings import MAX_DEPTH
from aragorn.systems.catalogue import FUSION_CANDIDATES, SYSTEMS
from aragorn.systems.fusion import MemberFingerprints
from aragorn.systems.weighted_sum import (
    LENGTH_FEATURE,
    LengthFeature,
    Member,
    WeightedSum,
)
from aragorn_training import configs

IterationCount = Annotated[int, Meta(ge=1, le=10_000)]
WEIGHT_DIGITS = 6  # further digits depend on machine and library versions
RIDGE = "ridge"  # learner of the shipped model


class FitSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the ridge regression and of the labels that all learners fit."""

    alpha: Positive = 1.0  # ridge penalty
    # number of unjudged pool documents sampled per topic and labelled 0
    unjudged_per_topic: NonNegativeInt = 20
    # weight of the second qrels, if there are two
    second_qrels_weight: Share = 0.5
    # of the sampled documents, bootstrap samples and compared learners
    seed: Annotated[int, Meta(ge=0, lt=2**32)] = 0


class LambdaMARTSettings(
    msgspec.Struct, frozen=True, tag="lambdamart", tag_field="model", forbid_unknown_fields=True
):
    """Settings of LambdaMART, which is compared with ridge regression."""

    trees: IterationCount = 100
    leaves: Annotated[int, Meta(ge=2, le=1000)] = 7  # maximum leaves per tree
    min_leaf_documents: IterationCount = 20  # minimum documents per leaf
    learning_rate: Positive = 0.05


class RankNetSettings(
    msgspec.Struct, frozen=True, tag="ranknet", tag_field="model", forbid_unknown_fields=True
):
    """Settings of RankNet, which is compared with ridge regression."""

    hidden_units: Annotated[int, Meta(ge=0, le=1000)] = 8  # 0: linear model
    steps: IterationCount = 300  # full-batch Adam steps
    learning_rate: Positive = 0.01
    weight_decay: NonNegative = 0.001  # L2 penalty of Adam


class FusionRecipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Recipe of a learned fusion: members, settings of its fit, and the variants to compare."""

    members: dict[str, Annotated[int, Meta(ge=0, le=MAX_DEPTH)]]  # pool depth per topic, by member
    baselines: Annotated[tuple[str, ...], Meta(min_length=1)]  # names of the baseline systems
    # candidate members, evaluated one at a time; they add no documents to the pool
    candidates: tuple[str, ...] = ()
    # cap of the log-length feature; None: no such feature
    max_log_length: Positive | None = None
    fit: FitSettings = FitSettings()
    # learners compared with ridge, by name
    comparison: dict[str, LambdaMARTSettings | RankNetSettings] = {}

    def build_model(
        self, fingerprints: MemberFingerprints, weights: Mapping[str, float], intercept: float
    ) -> WeightedSum:
        """Build the model, members sorted; raise ValueError if the pool has no member."""
        rounded = {name: round(float(weight), WEIGHT_DIGITS) for name, weight in weights.items()}
        members = tuple(
            Member(name, dict(fingerprints[name]), self.members[name], rounded[name])
            for name in sorted(self.members)
        )
        length = None
        if self.max_log_length is not None:
            length = LengthFeature(self.max_log_length, rounded[LENGTH_FEATURE])
        rounded_intercept = round(float(intercept), WEIGHT_DIGITS)
        return WeightedSum(__version__, "z_score", rounded_intercept, members, length)

    def get_pool_depths(self, features: Collection[str]) -> dict[str, int]:
        """Return the pool depths of the members and candidates among `features`, sorted by name."""
        pool_depths = dict.fromkeys(self.candidates, 0) | self.members
        return {name: pool_depths[name] for name in sorted(pool_depths) if name in features}

    @property
    def feature_names(self) -> list[str]:
        """Names of the features: sorted members, then the length feature if it has a cap."""
        return sorted(self.members) + [LENGTH_FEATURE] * (self.max_log_length is not None)


def load_fusion_recipe(name: str) -> FusionRecipe:
    """Load a recipe by name or path; raise UsageError if it is missing or invalid."""
    path, values = configs.read("fusion", name)
    recipe = configs.convert(path, values, FusionRecipe)
    members = [*recipe.members, *recipe.candidates]
    with configs.locate_errors(path):
        recipe.build_model(
            {name: {} for name in recipe.members}, dict.fromkeys(recipe.feature_names, 0.0), 0.0
        )
        if RIDGE in recipe.comparison:
            cause = "this name is reserved for the checkpoint's model"
            raise ValueError(f"comparison.{RIDGE}: {cause}; choose another name")
        if len(set(members)) < len(members):
            rule = "names must be unique and differ from the members"
            raise ValueError(f"candidates {', '.join(recipe.candidates)}: {rule}")
        _check_names("member", members, FUSION_CANDIDATES)
        _check_names("baseline", recipe.baselines, SYSTEMS)
    return recipe


def _check_names(role: str, names: Iterable[str], valid_names: Collection[str]) -> None:
    """Raise ValueError if a name is not among the valid ones."""
    for name in names:
        if name not in valid_names:
            raise ValueError(f"unknown {role} '{abbreviate(name)}'; {suggest(name, valid_names)}")
