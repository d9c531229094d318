"""Re-rank the first documents of a stage by relevance and quality together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from submission import lists
from submission.fusion.reordering import MARGIN, Reordering, open_reordering
from submission.systems.execution import Execution, Stage
from submission.systems.explained import Explained, Row
from submission.systems.remembered import Checkpoints


@dataclass(frozen=True)
class QualityReranking(Stage):
    """The first documents of one stage by its scores and another's together; those behind them stay behind, as they are."""

    relevance: Stage
    quality: Stage  # scores these documents; its lists are not asked for
    checkpoint: str

    def made_of(self) -> tuple[Stage, ...]:
        return (self.relevance, self.quality)

    def opened(self, checkpoints: Checkpoints) -> Reordering:
        return checkpoints.opened(self.checkpoint, open_reordering)

    def lists(self, execution: Execution) -> pd.DataFrame:
        """Of a list that was handed over too: it is ranked by relevance before."""
        return self.search(execution)

    def search(self, execution: Execution) -> pd.DataFrame:
        """All that is listed by relevance; of equal ones the first there."""
        return lists.in_given_order(self._scored(execution), execution.topics)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """A document that is not listed by relevance is behind those that are."""
        scored = self._scored(execution)
        found = pairs[["qid", "docno"]].merge(scored, on=["qid", "docno"], how="left")["score"]
        behind = pairs["qid"].map(scored.groupby("qid")["score"].min()).fillna(0.0).to_numpy() - MARGIN
        return np.where(found.isna(), behind, found)

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Explain the shares of relevance and quality, and the effect of each piece of the premise on the latter."""
        reordering, scored = self.opened(execution.checkpoints), self._scored(execution)
        first = scored[scored["quality"].notna()].reset_index(drop=True)
        [score] = self.scores(execution, pd.DataFrame({"qid": [qid], "docno": [docno]})).tolist()
        if docno not in set(first["docno"]):
            how = f"it is not among the {len(first)} documents that are ordered by quality too, and stays behind them"
            return Explained(score, how, [Row(score, "behind")])
        place, found = first.index[first["docno"] == docno][0], self.quality.explain(execution, qid, docno)
        shares = reordering.shares(first["relevance"].to_numpy(), first["quality"].to_numpy())
        rows = [
            Row(shares[0][place], "relevance", f"z of {first['relevance'][place]:.4f}"),
            Row(shares[1][place], "quality", f"z of {found.score:.4f}, times {reordering.weight:.3f}"),
        ]
        deviation = first["quality"].std(ddof=0)
        slope = reordering.weight / deviation if deviation else 0.0
        return Explained(
            score,
            f"the sum of these parts, z over the first {len(first)} documents of the topic",
            rows,
            seen=found.seen,
            views={f"quality {found.score:.6f}: {found.how}": found.parts},
            omissions=[replace(row, value=slope * row.value) for row in found.omissions],
        )

    def formula(self, checkpoints: Checkpoints) -> str:
        return f"score = {self.opened(checkpoints).formula()}"

    def metadata(self, name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"reranks": name(self.relevance)}

    def _scored(self, execution: Execution) -> pd.DataFrame:
        """`qid docno relevance quality score` in the order of relevance; quality is NaN behind the first documents."""
        return execution.once(self, "scored", lambda: self._made(execution))

    def _made(self, execution: Execution) -> pd.DataFrame:
        reordering, listed = self.opened(execution.checkpoints), execution.lists(self.relevance)
        first = lists.cut(listed, reordering.documents)[["qid", "docno"]]
        quality = first.assign(quality=self.quality.scores(execution, first).astype(float))
        scored = listed.rename(columns={"score": "relevance"}).merge(quality, on=["qid", "docno"], how="left")
        parts = [
            reordering.scores(rows["relevance"].to_numpy(), rows["quality"].dropna().to_numpy())
            for _, rows in scored.groupby("qid", sort=False)
        ]
        return scored.assign(score=np.concatenate([np.empty(0), *parts]))
