"""Re-rank the top documents of topics by standardised relevance and argument quality.

Checkpoint files: config.json (`QualityInterpolation`), metrics.json, provenance.json (hashes),
README.md.
"""

import hashlib
from functools import cached_property
from typing import Annotated

import msgspec
import numpy as np

from aragorn.bounds import NonNegative
from aragorn.systems.weighted_sum import compute_z_scores

VERSION = 1  # of scores of the same parameters

# difference between the lowest score of a re-ranked document and the next document's score
SCORE_GAP = 1.0


class QualityInterpolation(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """Weighted sum of z-scores over a topic's top documents: score = z(relevance) + weight ·
    z(quality)."""

    version: str  # version of the code that fitted it
    # number of re-ranked documents
    depth: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    weight: NonNegative

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the parameters."""
        return hashlib.sha256(msgspec.json.encode((self.depth, self.weight))).hexdigest()

    def format_formula(self) -> str:
        """Return the score formula as text, in which z denotes the z-score over the top
        documents."""
        return (
            f"z(relevance) {self.weight:+.3f} z(quality), over the top {self.depth} documents of a "
            "topic"
        )

    def compute_contributions(
        self, relevance: np.ndarray, quality: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute the contributions (n,) of relevance and quality to the scores of a topic's top
        documents."""
        return compute_z_scores(relevance, relevance), self.weight * compute_z_scores(
            quality, quality
        )

    def score(self, relevance: np.ndarray, quality: np.ndarray) -> np.ndarray:
        """Compute a topic's document scores (N,) from relevance (N,), descending, and the quality
        (n,) of the top documents.

        Documents below the top keep their order and score differences.
        """
        top_relevance, lower_relevance = np.split(relevance, [len(quality)])
        scores = np.sum(self.compute_contributions(top_relevance, quality), axis=0)
        return np.concatenate(
            [scores, scores.min() - SCORE_GAP - (top_relevance.min() - lower_relevance)]
        )
