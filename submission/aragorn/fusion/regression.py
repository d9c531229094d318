"""Fuse rankings by linear regression over the members' min-max scaled scores (Entezari 2020,
sections 3.6 and 4.5).

Checkpoint files: config.json (`RegressionEnsemble`), metrics.json, provenance.json (hashes),
README.md.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
import pandas as pd

MEMBER_DEPTH = 100  # number of top documents per member and topic


@dataclass(frozen=True)
class RegressionMember:
    """System whose scores are combined, and the range of its scores at fitting time."""

    name: str
    checkpoints: dict[str, str]  # fingerprints by checkpoint name
    coefficient: float
    minimum: float
    maximum: float

    def min_max_scale(self, scores: np.ndarray) -> np.ndarray:
        """Scale scores to [0, 1] by the fitted range (Entezari 2020, eq. 3.25), clipping scores
        outside it."""
        width = self.maximum - self.minimum
        return np.clip((scores - self.minimum) / width, 0, 1) if width else np.zeros_like(scores)


@dataclass(frozen=True)
class RegressionEnsemble:
    """Linear regression: score = intercept + Σ coefficient · min-max scaled score of a member."""

    version: str  # version of the code that fitted it
    intercept: float
    members: tuple[RegressionMember, ...]

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all parameters and of the members' checkpoints."""
        return hashlib.sha256(msgspec.json.encode((self.intercept, self.members))).hexdigest()

    def format_formula(self) -> str:
        """Return the score formula as text, in which minmax scales a score to [0, 1] by the fitted
        range."""
        return f"{self.intercept:.3f}" + "".join(
            f" {member.coefficient:+.3f} minmax({member.name})" for member in self.members
        )

    def score(self, scores: Mapping[str, np.ndarray]) -> np.ndarray:
        """Compute ensemble scores from arrays of member scores, by member name; all arrays have the
        shape of the result."""
        summands = [
            member.coefficient * member.min_max_scale(scores[member.name].astype(float))
            for member in self.members
        ]
        return np.asarray(self.intercept + np.sum(summands, axis=0))

    def score_rankings(self, rankings: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        """Score the union of the members' rankings `qid docno score`, by member name; return a
        frame with the same columns.

        A member's scaled score is 0, its minimum, for documents that it does not rank.
        """
        table = pd.DataFrame(columns=["qid", "docno"], dtype=object)
        for member in self.members:
            ranking = rankings[member.name]
            scaled_scores = member.min_max_scale(ranking["score"].to_numpy(dtype=float))
            scores = ranking[["qid", "docno"]].assign(**{member.name: scaled_scores})
            table = table.merge(scores, on=["qid", "docno"], how="outer")
        weights = np.array([member.coefficient for member in self.members])
        values = table[[member.name for member in self.members]].fillna(0.0).to_numpy()
        # A matrix product may round equal rows differently.
        return table[["qid", "docno"]].assign(score=self.intercept + (values * weights).sum(axis=1))

    @property
    def member_fingerprints(self) -> dict[str, dict[str, str]]:
        """Fingerprints of each member's checkpoints by member name."""
        return {member.name: member.checkpoints for member in self.members}
