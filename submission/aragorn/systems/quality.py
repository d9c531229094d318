"""Re-rank the top documents of topics by standardised relevance and argument quality.

Checkpoint files: config.json (`QualityInterpolation`), metrics.json, provenance.json (hashes),
README.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from aragorn.bounds import NonNegative
from aragorn.explanation import Explanation, Row
from aragorn.pipeline.retrieval import Retrieval, Stage
from aragorn.pipeline.session import CheckpointStore
from aragorn.rankings import rank_by_score_stable, truncate_rankings
from aragorn.systems.weighted_sum import compute_z_scores

if TYPE_CHECKING:
    import pandas as pd

VERSION = 1  # of scores of the same parameters
COMPUTES_WITH = ("aragorn.systems.weighted_sum", "numpy", "pandas")

# difference between the lowest score of a re-ranked document and the next document's score
SCORE_GAP = 1.0


class QualityInterpolation(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """Score of a topic's top documents: z(relevance) + weight · z(quality)."""

    version: str  # version of the code that fitted it
    # number of re-ranked documents
    depth: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    weight: NonNegative

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(msgspec.json.encode((self.depth, self.weight))).hexdigest()

    def format_formula(self) -> str:
        return (
            f"z(relevance) {self.weight:+.3f} z(quality), over the top {self.depth} documents of a "
            "topic"
        )

    def compute_contributions(
        self, relevance: np.ndarray, quality: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute the contributions (n,) of relevance and quality to top documents."""
        return compute_z_scores(relevance, relevance), self.weight * compute_z_scores(
            quality, quality
        )

    def score(self, relevance: np.ndarray, quality: np.ndarray) -> np.ndarray:
        """Compute scores (N,) from relevance (N,), descending, and the top's quality (n,).

        Documents below the top keep their order and score differences.
        """
        top_relevance, lower_relevance = np.split(relevance, [len(quality)])
        scores = np.sum(self.compute_contributions(top_relevance, quality), axis=0)
        return np.concatenate(
            [scores, scores.min() - SCORE_GAP - (top_relevance.min() - lower_relevance)]
        )


@dataclass(frozen=True)
class QualityRerankingStage(Stage):
    """Re-ranking of a stage's top documents by relevance and quality; others keep their order."""

    version = 1
    computes_with = (__name__,)
    family = "quality re-ranking"
    relevance: Stage
    quality: Stage  # scores the top documents; its own ranking is not used
    checkpoint: str

    def get_dependencies(self) -> tuple[Stage, ...]:
        return (self.relevance, self.quality)

    def load_checkpoint(self, checkpoints: CheckpointStore) -> QualityInterpolation:
        return checkpoints.load_config(self.checkpoint, QualityInterpolation)

    def rank(self, retrieval: Retrieval) -> pd.DataFrame:
        """Rank documents; of an input run, the top is that by relevance."""
        return self.search(retrieval)

    def search(self, retrieval: Retrieval) -> pd.DataFrame:
        """Rank all documents of the relevance stage, keeping the order of ties."""
        return rank_by_score_stable(self._get_scored_ranking(retrieval), retrieval.topics)

    def score(self, retrieval: Retrieval, pairs: pd.DataFrame) -> np.ndarray:
        """Score pairs; a document outside the relevance ranking scores below all in it."""
        scored_ranking = self._get_scored_ranking(retrieval)
        known_scores = pairs[["qid", "docno"]].merge(
            scored_ranking, on=["qid", "docno"], how="left"
        )["score"]
        fallback_scores = (
            pairs["qid"].map(scored_ranking.groupby("qid")["score"].min()).fillna(0.0).to_numpy()
            - SCORE_GAP
        )
        return np.where(known_scores.isna(), fallback_scores, known_scores)

    def explain(self, retrieval: Retrieval, qid: str, docno: str) -> Explanation:
        """Break the score down into relevance and quality, with occlusions of the latter."""
        interpolation = self.load_checkpoint(retrieval.session.checkpoints)
        scored_ranking = self._get_scored_ranking(retrieval)
        top_rows = scored_ranking[scored_ranking["quality"].notna()].reset_index(drop=True)
        score = self.score_document(retrieval, qid, docno)
        if docno not in set(top_rows["docno"]):
            summary = f"not re-ranked by quality: below the top {len(top_rows)} documents"
            rows = [Row(score, "below the re-ranked documents")]
            return Explanation(score, rows, summary)
        position = top_rows.index[top_rows["docno"] == docno][0]
        quality = self.quality.explain(retrieval, qid, docno)
        contributions = interpolation.compute_contributions(
            top_rows["relevance"].to_numpy(), top_rows["quality"].to_numpy()
        )
        note = f"z-score of {quality.score:.4f}, weight {interpolation.weight:.3f}"
        rows = [
            Row(
                contributions[0][position],
                "relevance",
                f"z-score of {top_rows['relevance'][position]:.4f}",
            ),
            Row(contributions[1][position], "quality", note),
        ]
        deviation = top_rows["quality"].std(ddof=0)
        slope = interpolation.weight / deviation if deviation else 0.0
        return Explanation(
            score,
            rows,
            f"sum of these contributions; z-scores over the topic's top {len(top_rows)} documents",
            model_inputs=quality.model_inputs,
            breakdowns={f"quality {quality.score:.6f}: {quality.summary}": quality.contributions},
            occlusions=[replace(row, value=slope * row.value) for row in quality.occlusions],
        )

    def format_formula(self, checkpoints: CheckpointStore) -> str:
        return f"score = {self.load_checkpoint(checkpoints).format_formula()}"

    def get_metadata(self, get_name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"reranks": get_name(self.relevance)}

    def _get_scored_ranking(self, retrieval: Retrieval) -> pd.DataFrame:
        """Return `qid docno relevance quality score`; below the top, quality is NaN."""

        def compute() -> pd.DataFrame:
            interpolation = self.load_checkpoint(retrieval.session.checkpoints)
            ranking = retrieval.rank(self.relevance)
            top_pairs = truncate_rankings(ranking, interpolation.depth)[["qid", "docno"]]
            quality = top_pairs.assign(
                quality=self.quality.score(retrieval, top_pairs).astype(float)
            )
            scored_ranking = ranking.rename(columns={"score": "relevance"}).merge(
                quality, on=["qid", "docno"], how="left"
            )
            scores = [
                interpolation.score(
                    rows["relevance"].to_numpy(), rows["quality"].dropna().to_numpy()
                )
                for _, rows in scored_ranking.groupby("qid", sort=False)
            ]
            return scored_ranking.assign(score=np.concatenate([np.empty(0), *scores]))

        return retrieval.memo.once(self, "scored", compute)
