"""Fuse rankings by a weighted sum of the members' scores and the document length, standardised per
topic.

Checkpoint files: config.json (`LinearFusion`), metrics.json, provenance.json (hashes), README.md.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated

import msgspec
import numpy as np
import pandas as pd
from msgspec import Meta

from aragorn.fusion.z_scores import compute_z_scores
from aragorn.rankings import MAX_DEPTH

LENGTH_FEATURE = "length"  # reserved as a member name
UPPER_BOUND = 1e9  # exclusive bound on the absolute value of parameters
BoundedFloat = Annotated[float, Meta(gt=-UPPER_BOUND, lt=UPPER_BOUND)]


class LinearMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """System whose scores are one feature of the model."""

    name: str
    checkpoints: dict[str, str]  # fingerprints by checkpoint name
    # number of top documents in the pool
    pool_depth: Annotated[int, Meta(ge=0, le=MAX_DEPTH)] = msgspec.field(name="best")
    weight: BoundedFloat


class LengthFeature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Capped logarithm of the document length in words, a feature of the model."""

    # maximum log length
    cap: Annotated[float, Meta(gt=0, lt=UPPER_BOUND)] = msgspec.field(name="most")
    weight: BoundedFloat


class LinearFusion(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """Linear model of document scores: score = intercept + Σ weight · standardised feature."""

    version: str  # version of the code that fitted it
    intercept: BoundedFloat
    members: tuple[LinearMember, ...]
    length: LengthFeature | None

    def __post_init__(self) -> None:
        """Validate the members.

        Raises:
            ValueError: If names are not unique, or no member adds documents to the pool.
        """
        names = [member.name for member in self.members]
        if len({*names, LENGTH_FEATURE}) <= len(names):
            raise ValueError(
                f"members {', '.join(names)}: names must be unique and different from '{LENGTH_FEATURE}'"
            )
        if not any(member.pool_depth for member in self.members):
            raise ValueError(
                "no member adds documents to the pool; set `best` to at least 1 for one of them"
            )

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all parameters and of the members' checkpoints."""
        return hashlib.sha256(
            msgspec.json.encode((self.intercept, self.members, self.length), order="sorted")
        ).hexdigest()

    @cached_property
    def weights(self) -> dict[str, float]:
        """Feature weights by name, in summation order."""
        weights = {member.name: member.weight for member in self.members}
        return weights if self.length is None else {**weights, LENGTH_FEATURE: self.length.weight}

    @property
    def feature_description(self) -> str:
        """Noun phrase for the features, including the cap of the document length."""
        length = (
            f" and the log document length, capped at {self.length.cap:g}" if self.length else ""
        )
        return f"the members' scores{length}"

    def format_formula(self) -> str:
        """Return the score formula as text, in which z denotes the z-score over the topic's
        pool."""
        return f"{self.intercept:.3f}" + "".join(
            f" {weight:+.3f} z({name})" for name, weight in self.weights.items()
        )

    def compute_contributions(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compute each feature's contribution (N,) to document scores, by feature name; `features`
        are standardised."""
        return {name: weight * features[name] for name, weight in self.weights.items()}

    def score(self, features: Mapping[str, np.ndarray]) -> np.ndarray:
        """Compute document scores (N,) from standardised features, adding contributions to the
        intercept in a fixed order."""
        # A matrix product may round equal rows differently.
        return np.asarray(
            sum(self.compute_contributions(features).values(), start=np.float64(self.intercept))
        )

    @property
    def member_fingerprints(self) -> dict[str, dict[str, str]]:
        """Fingerprints of each member's checkpoints by member name."""
        return {member.name: member.checkpoints for member in self.members}


def standardise_by_topic(features: pd.DataFrame, pool: pd.DataFrame) -> dict[str, np.ndarray]:
    """Standardise features by their mean and standard deviation over the topic's pool; return
    arrays (rows,) by feature name.

    Both tables contain `qid docno` and one column per feature. A feature is 0 if it is constant
    over the pool or the pool is empty.
    """
    standardised_features = {
        name: np.zeros(len(features)) for name in features.columns if name not in ("qid", "docno")
    }
    rows, pool_rows = (frame.groupby("qid").indices for frame in (features, pool))
    for name, scores in standardised_features.items():
        values, pool_values = features[name].to_numpy(), pool[name].to_numpy()
        for qid in rows.keys() & pool_rows.keys():
            scores[rows[qid]] = compute_z_scores(values[rows[qid]], pool_values[pool_rows[qid]])
    return standardised_features


def compute_log_lengths(texts: Iterable[str], cap: float) -> np.ndarray:
    """Compute the natural logarithm (N,) of each text's word count, limited to `cap`; 0 for empty
    texts."""
    return np.minimum(np.log([max(1, len(text.split())) for text in texts]), cap)
