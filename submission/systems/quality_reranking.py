"""Re-ranking of a stage's top documents by relevance and argument quality."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from submission.fusion.quality import MARGIN, Reordering
from submission.rankings import cut, in_given_order
from submission.systems.checkpoint_store import Checkpoints
from submission.systems.execution import Execution, Stage
from submission.systems.explanation import Explained, Row


@dataclass(frozen=True)
class QualityReranking(Stage):
    """Re-ranking of one stage's top documents by its scores and another stage's; documents below the top keep their order."""

    relevance: Stage
    quality: Stage  # scores the top documents; its own ranking is not used
    checkpoint: str

    def made_of(self) -> tuple[Stage, ...]:
        return (self.relevance, self.quality)

    def opened(self, checkpoints: Checkpoints) -> Reordering:
        return checkpoints.load_config(self.checkpoint, Reordering)

    def lists(self, execution: Execution) -> pd.DataFrame:
        """Rank supplied documents like a search: by relevance, then re-rank the top."""
        return self.search(execution)

    def search(self, execution: Execution) -> pd.DataFrame:
        """Rank all documents of the relevance stage; ties keep its order."""
        return in_given_order(self._scored(execution), execution.topics)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Score pairs; a document missing from the relevance ranking scores below all others."""
        scored = self._scored(execution)
        known = pairs[["qid", "docno"]].merge(scored, on=["qid", "docno"], how="left")["score"]
        fallback = pairs["qid"].map(scored.groupby("qid")["score"].min()).fillna(0.0).to_numpy() - MARGIN
        return np.where(known.isna(), fallback, known)

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Break the score down into relevance and quality, with the effect of each word piece on the latter."""
        reordering, scored = self.opened(execution.checkpoints), self._scored(execution)
        top = scored[scored["quality"].notna()].reset_index(drop=True)
        [score] = self.scores(execution, pd.DataFrame({"qid": [qid], "docno": [docno]})).tolist()
        if docno not in set(top["docno"]):
            summary = f"not among the top {len(top)} documents, which alone are re-ranked by quality"
            return Explained(score, summary, [Row(score, "below the re-ranked documents")])
        position, quality = top.index[top["docno"] == docno][0], self.quality.explain(execution, qid, docno)
        contributions = reordering.shares(top["relevance"].to_numpy(), top["quality"].to_numpy())
        rows = [
            Row(contributions[0][position], "relevance", f"z-score of {top['relevance'][position]:.4f}"),
            Row(contributions[1][position], "quality", f"z-score of {quality.score:.4f}, weight {reordering.weight:.3f}"),
        ]
        deviation = top["quality"].std(ddof=0)
        slope = reordering.weight / deviation if deviation else 0.0
        return Explained(
            score,
            f"sum of these contributions; z-scores over the topic's top {len(top)} documents",
            rows,
            seen=quality.seen,
            views={f"quality {quality.score:.6f}: {quality.how}": quality.parts},
            omissions=[replace(row, value=slope * row.value) for row in quality.omissions],
        )

    def formula(self, checkpoints: Checkpoints) -> str:
        return f"score = {self.opened(checkpoints).formula()}"

    def metadata(self, name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"reranks": name(self.relevance)}

    def _scored(self, execution: Execution) -> pd.DataFrame:
        """Return `qid docno relevance quality score` in relevance order; quality is NaN below the re-ranked top."""
        return execution.once(self, "scored", lambda: self._made(execution))

    def _made(self, execution: Execution) -> pd.DataFrame:
        reordering, ranking = self.opened(execution.checkpoints), execution.lists(self.relevance)
        top = cut(ranking, reordering.documents)[["qid", "docno"]]
        quality = top.assign(quality=self.quality.scores(execution, top).astype(float))
        scored = ranking.rename(columns={"score": "relevance"}).merge(quality, on=["qid", "docno"], how="left")
        scores = [
            reordering.scores(rows["relevance"].to_numpy(), rows["quality"].dropna().to_numpy())
            for _, rows in scored.groupby("qid", sort=False)
        ]
        return scored.assign(score=np.concatenate([np.empty(0), *scores]))
