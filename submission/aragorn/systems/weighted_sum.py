"""Fuse rankings by a weighted sum of normalised scores.

Checkpoint files: config.json (`WeightedSum`), metrics.json, provenance.json (hashes), README.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from aragorn.bounds import Bounded, Name, Positive
from aragorn.rankings import MAX_DEPTH

if TYPE_CHECKING:
    import pandas as pd

VERSION = 1  # of scores of the same model
COMPUTES_WITH = ("numpy", "pandas")

PAIR_COLUMNS = ["qid", "docno"]
LENGTH_FEATURE = "length"  # reserved as a member name
# z_score: by mean and standard deviation over the topic's pool; min_max: by the range of the
# member's scores when it was fitted
Normaliser = Literal["z_score", "min_max"]


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """System whose scores are one feature of the sum."""

    name: Name
    checkpoints: dict[str, str]  # fingerprints by checkpoint name
    pool_depth: Annotated[int, Meta(ge=0, le=MAX_DEPTH)]  # number of top documents in the pool
    weight: Bounded
    # range of the scores at fitting time; min_max only
    minimum: Bounded | None = None
    maximum: Bounded | None = None

    def min_max_scale(self, scores: np.ndarray) -> np.ndarray:
        """Scale scores to [0, 1] by the fitted range, clipped (Entezari 2020, eq. 3.25)."""
        assert self.minimum is not None
        assert self.maximum is not None
        width = self.maximum - self.minimum
        return np.clip((scores - self.minimum) / width, 0, 1) if width else np.zeros_like(scores)


class LengthFeature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Capped logarithm of the document length in words, a feature of the sum."""

    cap: Positive  # maximum log length
    weight: Bounded


class WeightedSum(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """A linear model of document scores: score = intercept + Σ weight · normalised feature.

    With z-scores, every member scores every document of the pool. With min-max scaling, a document
    outside a member's top `pool_depth` has the scaled score 0, its minimum.
    """

    version: str  # version of the code that fitted it
    normaliser: Normaliser
    intercept: Bounded
    members: tuple[Member, ...]
    length: LengthFeature | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if names repeat, the pool is empty, or the normaliser does not fit."""
        names = [member.name for member in self.members]
        if len({*names, LENGTH_FEATURE}) <= len(names):
            raise ValueError(
                f"members {', '.join(names)}: names must be unique and different from "
                f"'{LENGTH_FEATURE}'"
            )
        if not any(member.pool_depth for member in self.members):
            raise ValueError(
                "no member adds documents to the pool; set `pool_depth` to at least 1 for one of "
                "them"
            )
        has_ranges = self.normaliser == "min_max"
        for member in self.members:
            if [member.minimum is not None, member.maximum is not None] != [has_ranges] * 2:
                raise ValueError(
                    f"member {member.name}: `minimum` and `maximum` are set for min_max only"
                )
            if has_ranges and not member.pool_depth:
                raise ValueError(
                    f"member {member.name}: `pool_depth` is 0, but min_max scales scores of the "
                    "member's top documents; set it to at least 1, or use z_score"
                )
        if has_ranges and self.length is not None:
            raise ValueError("`length` has no range; set it to null, or use z_score")

    @cached_property
    def fingerprint(self) -> str:
        parameters = (self.normaliser, self.intercept, self.members, self.length)
        return hashlib.sha256(msgspec.json.encode(parameters, order="sorted")).hexdigest()

    @cached_property
    def weights(self) -> dict[str, float]:
        weights = {member.name: member.weight for member in self.members}
        return weights if self.length is None else {**weights, LENGTH_FEATURE: self.length.weight}

    @property
    def pool_depths(self) -> dict[str, int]:
        return {member.name: member.pool_depth for member in self.members}

    @property
    def member_fingerprints(self) -> dict[str, dict[str, str]]:
        return {member.name: member.checkpoints for member in self.members}

    @property
    def feature_description(self) -> str:
        length = (
            f" and the log document length, capped at {self.length.cap:g}" if self.length else ""
        )
        return f"the members' scores{length}"

    def format_formula(self) -> str:
        """Return the formula as text; z and minmax are the normalised scores."""
        function = "z" if self.normaliser == "z_score" else "minmax"
        return f"{self.intercept:.3f}" + "".join(
            f" {weight:+.3f} {function}({name})" for name, weight in self.weights.items()
        )

    def normalise(self, features: pd.DataFrame, pool: pd.DataFrame) -> dict[str, np.ndarray]:
        """Normalise raw features; return arrays (rows,) by feature name.

        `features` and `pool` are frames `qid docno FEATURE…`; with min_max, features are NaN for
        documents that a member does not rank.
        """
        if self.normaliser == "z_score":
            return standardise_by_topic(features, pool)
        return self.min_max_scale({name: features[name].to_numpy(float) for name in self.weights})

    def min_max_scale(self, scores: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Scale members' scores, arrays by name, by their fitted ranges; NaN becomes 0."""
        return {
            member.name: np.nan_to_num(member.min_max_scale(scores[member.name].astype(float)))
            for member in self.members
        }

    def compute_contributions(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compute the contributions of normalised features by name."""
        return {name: weight * features[name] for name, weight in self.weights.items()}

    def score(self, features: Mapping[str, np.ndarray]) -> np.ndarray:
        """Compute scores from normalised features, summed in a fixed order."""
        # A matrix product may round equal rows differently.
        return np.asarray(
            sum(self.compute_contributions(features).values(), start=np.float64(self.intercept))
        )


def merge_scores(pairs: pd.DataFrame, rankings: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Add to pairs `qid docno` a column of scores per ranking; NaN for other documents."""
    for name, ranking in rankings.items():
        scores = ranking[[*PAIR_COLUMNS, "score"]].rename(columns={"score": name})
        pairs = pairs.merge(scores, on=PAIR_COLUMNS, how="left")
    return pairs


def standardise_by_topic(features: pd.DataFrame, pool: pd.DataFrame) -> dict[str, np.ndarray]:
    """Standardise features over the topic's pool; return arrays (rows,) by feature name.

    Both frames are `qid docno FEATURE…`. A feature is 0 if it is constant or the pool is empty.
    """
    standardised_features = {
        name: np.zeros(len(features)) for name in features.columns.drop(PAIR_COLUMNS)
    }
    rows = features.groupby("qid").indices
    pool_rows = pool.groupby("qid").indices
    for name, scores in standardised_features.items():
        values = features[name].to_numpy()
        pool_values = pool[name].to_numpy()
        for qid in rows.keys() & pool_rows.keys():
            scores[rows[qid]] = compute_z_scores(values[rows[qid]], pool_values[pool_rows[qid]])
    return standardised_features


def compute_log_lengths(texts: Iterable[str], cap: float) -> np.ndarray:
    """Compute the natural logarithms (N,) of word counts, at most `cap`; 0 for empty texts."""
    return np.minimum(np.log([max(1, len(text.split())) for text in texts]), cap)


def compute_z_scores(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Standardise values (N,) by the pool's values `reference` (M,); 0 if those are constant.

    The order of the pool does not affect rounding.
    """
    sorted_reference = np.sort(reference)
    # Because of rounding, equal values may have a non-zero standard deviation.
    deviation = sorted_reference.std() if sorted_reference[0] < sorted_reference[-1] else 0.0
    if not deviation:
        return np.zeros(len(values))
    return np.asarray((values - sorted_reference.mean()) / deviation)
