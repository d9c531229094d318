"""A linear regression over the members' normalised scores (thesis 3.6 and 4.5).

Its checkpoint: config.json (what `Regression` holds), metrics.json, provenance.json (hashes), README.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from submission.disk.provenance import read_config
from submission.fusion.members import MadeWith, refuse_others

LISTED = 100  # documents of a member that count, a topic


@dataclass(frozen=True)
class Member:
    """A member: the checkpoints that it is made with, its weight, and the range of its scores when the weights were fitted."""

    name: str
    checkpoints: dict[str, str]  # names and fingerprints
    coefficient: float
    minimum: float
    maximum: float

    def normalised(self, scores: np.ndarray) -> np.ndarray:
        """Scores brought to [0, 1] by that range (thesis eq. 3.25); those outside of it are clipped."""
        width = self.maximum - self.minimum
        return np.clip((scores - self.minimum) / width, 0, 1) if width else np.zeros_like(scores)


@dataclass(frozen=True)
class Regression:
    """score = intercept + Σ coefficient · normalised score of a member."""

    version: str  # of the code that fitted it
    intercept: float
    members: tuple[Member, ...]

    @cached_property
    def fingerprint(self) -> str:
        """The hash of all its numbers and of its members' checkpoints."""
        return hashlib.sha256(msgspec.json.encode((self.intercept, self.members))).hexdigest()

    def formula(self) -> str:
        """The sum in words."""
        return f"{self.intercept:.3f}" + "".join(f" {m.coefficient:+.3f} {m.name}" for m in self.members)

    def added(self, scores: Mapping[str, np.ndarray]) -> np.ndarray:
        """Compute the scores (…) of documents from those of each member, of the same shape."""
        weighted = [member.coefficient * member.normalised(scores[member.name].astype(float)) for member in self.members]
        return np.asarray(self.intercept + np.sum(weighted, axis=0))

    def combine(self, listed: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        """Scores of all documents that any member lists.

        Args:
            listed: the members' best documents `qid docno score` by their names.

        Returns:
            `qid docno score`; a member that does not list a document contributes 0, its lowest.
        """
        table = pd.DataFrame(columns=["qid", "docno"], dtype=object)
        for member in self.members:
            own = listed[member.name]
            scores = own[["qid", "docno"]].assign(**{member.name: member.normalised(own["score"].to_numpy(dtype=float))})
            table = table.merge(scores, on=["qid", "docno"], how="outer")
        weights = np.array([member.coefficient for member in self.members])
        values = table[[member.name for member in self.members]].fillna(0.0).to_numpy()
        # Products added one by one: a matrix product may round a row differently from its equal.
        return table[["qid", "docno"]].assign(score=self.intercept + (values * weights).sum(axis=1))

    def refuse_others(self, made_with: MadeWith) -> None:
        """Check that the members and their checkpoints are those of the fit. Raises CheckpointError."""
        refuse_others({member.name: member.checkpoints for member in self.members}, made_with, "fuse")


def open_regression(directory: Path) -> Regression:
    """Read such a directory. Raises CheckpointError: it is missing or damaged."""
    return read_config(directory, Regression)
