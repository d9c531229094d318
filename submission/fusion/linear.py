"""A weighted sum of what is known of a pair: its members' scores and the document's length, each standardised by topic.

Its checkpoint: config.json (what `Linear` holds), metrics.json, provenance.json (hashes), README.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import pandas as pd
from msgspec import Meta

from submission.disk.provenance import read_config
from submission.fusion.members import MadeWith, refuse_others
from submission.fusion.zscores import zscores
from submission.lists import DEEPEST

LENGTH = "length"  # the name of that feature; no member has it
LARGE = 1e9  # no number is
Number = Annotated[float, Meta(gt=-LARGE, lt=LARGE)]


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member: the checkpoints that it is made with, how many documents it proposes, and its weight."""

    name: str
    checkpoints: dict[str, str]  # names and fingerprints
    best: Annotated[int, Meta(ge=0, le=DEEPEST)]  # documents a topic that join the pool; 0: it only scores those of others
    weight: Number


class Length(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The logarithm of the number of words: how much of it counts, and its weight."""

    most: Annotated[float, Meta(gt=0, lt=LARGE)]
    weight: Number


class Linear(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """score = intercept + Σ weight · standardised feature."""

    version: str  # of the code that fitted it
    intercept: Number
    members: tuple[Member, ...]
    length: Length | None

    def __post_init__(self) -> None:
        """Raises ValueError: two features of one name, or nothing that proposes documents."""
        names = [member.name for member in self.members]
        if len({*names, LENGTH}) <= len(names):
            raise ValueError(f"members {', '.join(names)}: expected different names, and none of them {LENGTH}")
        if not any(member.best for member in self.members):
            raise ValueError("no member proposes documents: expected a `best` above 0")

    @cached_property
    def fingerprint(self) -> str:
        """The hash of all its numbers and of its members' checkpoints."""
        decisive = (self.intercept, self.members, self.length)
        return hashlib.sha256(msgspec.json.encode(decisive, order="sorted")).hexdigest()

    @cached_property
    def weights(self) -> dict[str, float]:
        """Of the features by their names, in the order in which they are added up."""
        weights = {member.name: member.weight for member in self.members}
        return weights if self.length is None else {**weights, LENGTH: self.length.weight}

    @property
    def added(self) -> str:
        """What is added up, in words."""
        length = self.length and f" and the logarithm of the number of words, up to {self.length.most:g}"
        return f"the members' scores{length or ''}"

    def formula(self) -> str:
        """The sum in words."""
        return f"{self.intercept:.3f}" + "".join(f" {weight:+.3f} {name}" for name, weight in self.weights.items())

    def parts(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What each standardised feature (N,) adds to the scores."""
        return {name: weight * features[name] for name, weight in self.weights.items()}

    def scores(self, features: Mapping[str, np.ndarray]) -> np.ndarray:
        """The scores (N,) of standardised features: the parts, added to the intercept one by one in their order."""
        # A matrix product may round a row differently from its equal.
        return np.asarray(sum(self.parts(features).values(), start=np.float64(self.intercept)))

    def refuse_others(self, made_with: MadeWith) -> None:
        """Check that the members and their checkpoints are those of the fit. Raises CheckpointError."""
        refuse_others({member.name: member.checkpoints for member in self.members}, made_with, "fuse")


def standardised(features: pd.DataFrame, pool: pd.DataFrame) -> dict[str, np.ndarray]:
    """Features less their means over the topic's pool, divided by their deviations there.

    Args:
        features: `qid docno` and a column a feature.
        pool: the same of the pools' documents; their order changes no bit.

    Returns:
        By the features' names, an array (N,); 0 where all of a pool have one value, or there is none.
    """
    names = [name for name in features.columns if name not in ("qid", "docno")]
    found = {name: np.zeros(len(features)) for name in names}
    places, of_pool = (frame.groupby("qid").indices for frame in (features, pool))
    for name in names:
        values, pooled = features[name].to_numpy(), pool[name].to_numpy()
        for qid in places.keys() & of_pool.keys():
            found[name][places[qid]] = zscores(values[places[qid]], pooled[of_pool[qid]])
    return found


def log_lengths(texts: Iterable[str], most: float) -> np.ndarray:
    """The natural logarithms of the numbers of words, at most so much; of a text without any, 0."""
    return np.minimum(np.log([max(1, len(text.split())) for text in texts]), most)


def open_linear(directory: Path) -> Linear:
    """Read such a directory. Raises CheckpointError: it is missing or damaged."""
    return read_config(directory, Linear)
