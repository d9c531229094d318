"""The ensemble: a linear regression over the networks' normalised scores (thesis 3.6 and 4.5).

Its directory beside the checkpoints: config.json (what `Ensemble` holds), README.md, provenance.json (hashes).
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

from submission.checkpoint import CONFIG, verified_hashes
from submission.errors import CheckpointError

NAME = "ensemble"
LISTED = 100  # documents of a network that count, a topic


@dataclass(frozen=True)
class Member:
    """A network: its checkpoint, its weight, and the range of its scores when the weights were fitted."""

    name: str
    fingerprint: str  # of its checkpoint
    coefficient: float
    minimum: float
    maximum: float

    def normalised(self, scores: np.ndarray) -> np.ndarray:
        """Scores brought to [0, 1] by that range (thesis eq. 3.25); those outside of it are clipped."""
        width = self.maximum - self.minimum
        return np.clip((scores - self.minimum) / width, 0, 1) if width else np.zeros_like(scores)


@dataclass(frozen=True)
class Ensemble:
    """score = intercept + Σ coefficient · normalised score of a member."""

    intercept: float
    members: tuple[Member, ...]

    @cached_property
    def fingerprint(self) -> str:
        """The hash of all its numbers and of its members' checkpoints."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()

    def formula(self) -> str:
        """For people."""
        return f"{self.intercept:.3f}" + "".join(f" {m.coefficient:+.3f} {m.name}" for m in self.members)

    def combine(self, lists: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        """Scores of all documents that any member lists.

        Args:
            lists: the members' best documents `qid docno score` by their names.

        Returns:
            `qid docno score`; a member that does not list a document contributes 0, its lowest.
        """
        table = pd.DataFrame(columns=["qid", "docno"], dtype=object)
        for member in self.members:
            own = lists[member.name]
            scores = own[["qid", "docno"]].assign(**{member.name: member.normalised(own["score"].to_numpy(dtype=float))})
            table = table.merge(scores, on=["qid", "docno"], how="outer")
        weights = np.array([member.coefficient for member in self.members])
        values = table[[member.name for member in self.members]].fillna(0.0).to_numpy()
        # Products added one by one: a matrix product may round a row differently from its equal.
        return table[["qid", "docno"]].assign(score=self.intercept + (values * weights).sum(axis=1))

    def refuse_others(self, fingerprints: Mapping[str, str]) -> None:
        """Check that the members' checkpoints are those of the fit. Raises CheckpointError."""
        newer = [member.name for member in self.members if fingerprints[member.name] != member.fingerprint]
        if newer:
            raise CheckpointError(
                f"{NAME}: was fitted with other checkpoints of {', '.join(newer)}; run `python -m training aggregate` again"
            )


def open_ensemble(directory: Path) -> Ensemble:
    """Read an ensemble's directory.

    Raises:
        CheckpointError: it is missing or damaged.
    """
    if not directory.is_dir():
        raise CheckpointError(f"{directory}: no such ensemble; `python -m training aggregate` makes it from the networks")
    verified_hashes(directory, {CONFIG})
    try:
        return msgspec.json.decode((directory / CONFIG).read_bytes(), type=Ensemble)
    except msgspec.MsgspecError as error:
        raise CheckpointError(f"{directory / CONFIG}: does not fit this version of the code ({error}); fit it again") from None
