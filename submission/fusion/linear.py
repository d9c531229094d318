"""Linear fusion: a weighted sum of member scores and document length, standardised per topic.

Checkpoint files: config.json (`Linear`), metrics.json, provenance.json (hashes), README.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated

import msgspec
import numpy as np
import pandas as pd
from msgspec import Meta

from submission.fusion.z_scores import zscores
from submission.rankings import DEEPEST

LENGTH = "length"  # name of the length feature, reserved
LARGE = 1e9  # exclusive bound of all parameters
Number = Annotated[float, Meta(gt=-LARGE, lt=LARGE)]


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member: its checkpoints, pool depth and weight."""

    name: str
    checkpoints: dict[str, str]  # fingerprints by name
    best: Annotated[int, Meta(ge=0, le=DEEPEST)]  # top documents per topic added to the pool; 0: only scores other members'
    weight: Number


class Length(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Log document length in words: cap and weight."""

    most: Annotated[float, Meta(gt=0, lt=LARGE)]
    weight: Number


class Linear(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """score = intercept + Σ weight · standardised feature."""

    version: str  # version of the code that fitted it
    intercept: Number
    members: tuple[Member, ...]
    length: Length | None

    def __post_init__(self) -> None:
        """Validate the features. Raises ValueError for duplicate names or if no member adds documents to the pool."""
        names = [member.name for member in self.members]
        if len({*names, LENGTH}) <= len(names):
            raise ValueError(f"members {', '.join(names)}: names must be unique and different from '{LENGTH}'")
        if not any(member.best for member in self.members):
            raise ValueError("no member adds documents to the pool; set `best` above 0 for at least one")

    @cached_property
    def fingerprint(self) -> str:
        """Hash all parameters and the members' checkpoints."""
        fingerprint_source = (self.intercept, self.members, self.length)
        return hashlib.sha256(msgspec.json.encode(fingerprint_source, order="sorted")).hexdigest()

    @cached_property
    def weights(self) -> dict[str, float]:
        """Return the feature weights by name, in summation order."""
        weights = {member.name: member.weight for member in self.members}
        return weights if self.length is None else {**weights, LENGTH: self.length.weight}

    @property
    def added(self) -> str:
        """Describe the summed features."""
        length = self.length and f" and the log document length, capped at {self.length.most:g}"
        return f"the members' scores{length or ''}"

    def formula(self) -> str:
        """Return the formula as text; z: z-score over the topic's pool."""
        return f"{self.intercept:.3f}" + "".join(f" {weight:+.3f} z({name})" for name, weight in self.weights.items())

    def parts(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return each standardised feature's contribution (N,) to the scores."""
        return {name: weight * features[name] for name, weight in self.weights.items()}

    def scores(self, features: Mapping[str, np.ndarray]) -> np.ndarray:
        """Score documents (N,) from standardised features, adding contributions to the intercept in a fixed order."""
        # A matrix product may round equal rows differently.
        return np.asarray(sum(self.parts(features).values(), start=np.float64(self.intercept)))

    @property
    def member_checkpoints(self) -> dict[str, dict[str, str]]:
        """Return the fingerprints of each member's checkpoints by member name."""
        return {member.name: member.checkpoints for member in self.members}


def standardised(features: pd.DataFrame, pool: pd.DataFrame) -> dict[str, np.ndarray]:
    """Standardise features by mean and standard deviation over the topic's pool.

    Args:
        features: `qid docno` and one column per feature.
        pool: the same for the pooled documents; their order does not affect results.

    Returns:
        Arrays (N,) by feature name; 0 if the pool is constant or empty.
    """
    names = [name for name in features.columns if name not in ("qid", "docno")]
    standard = {name: np.zeros(len(features)) for name in names}
    rows, pool_rows = (frame.groupby("qid").indices for frame in (features, pool))
    for name in names:
        values, pooled = features[name].to_numpy(), pool[name].to_numpy()
        for qid in rows.keys() & pool_rows.keys():
            standard[name][rows[qid]] = zscores(values[rows[qid]], pooled[pool_rows[qid]])
    return standard


def log_lengths(texts: Iterable[str], most: float) -> np.ndarray:
    """Compute the natural logarithm of word counts, capped at `most`; 0 for empty texts."""
    return np.minimum(np.log([max(1, len(text.split())) for text in texts]), most)
