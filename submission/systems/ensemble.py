"""Regression ensemble: linear regression over the scores of several stages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from submission.fusion.regression import LISTED, Regression
from submission.rankings import cut, ranked
from submission.systems.checkpoint_store import Checkpoints
from submission.systems.execution import Execution
from submission.systems.explanation import Explained, Row
from submission.systems.fusion import Fusion, needed


@dataclass(frozen=True)
class Ensemble(Fusion):
    """Linear regression over the members' top-ranked scores (Entezari 2020, 3.6)."""

    def opened(self, checkpoints: Checkpoints) -> Regression:
        """Load the model. Raises CheckpointError if it was fitted with other members or other checkpoints."""
        return self.model(checkpoints, Regression)

    def search(self, execution: Execution) -> pd.DataFrame:
        """Rank the union of the members' top documents."""
        combined = self.opened(execution.checkpoints).combine(self._listed(execution))
        return ranked(combined, execution.topics)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Score pairs; a document outside all top rankings gets the intercept."""
        regression = self.opened(execution.checkpoints)
        combined = regression.combine(self._listed(execution))
        scores = pairs[["qid", "docno"]].merge(combined, on=["qid", "docno"], how="left")["score"]
        return scores.fillna(regression.intercept).to_numpy()

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Break the score down by member."""
        regression, rankings = self.opened(execution.checkpoints), self._listed(execution)
        rows = [Row(regression.intercept, "intercept")]
        for member in regression.members:
            score = rankings[member.name].set_index("docno")["score"].get(docno)
            if score is None:
                rows.append(Row(0.0, member.name, f"not in its top {LISTED}"))
                continue
            scaled = member.normalised(np.array([score])).item()
            note = f"score {score:.4f}, min-max scaled {scaled:.4f}, weight {member.coefficient:.4f}"
            rows.append(Row(member.coefficient * scaled, member.name, note))
        summary = "weighted sum of the members' min-max scaled scores, plus the intercept"
        if not any((ranking["docno"] == docno).any() for ranking in rankings.values()):
            summary = f"intercept only: not in any member's top {LISTED}"
        [total] = self.scores(execution, pd.DataFrame({"qid": [qid], "docno": [docno]}))
        return Explained(total, summary, rows)

    def formula(self, checkpoints: Checkpoints) -> str:
        return f"score = {checkpoints.load_config(self.checkpoint, Regression).formula()}"

    def _listed(self, execution: Execution) -> dict[str, pd.DataFrame]:
        """Return each member's top documents."""
        rankings = {}
        for name, stage in self.members:
            with needed(name):
                rankings[name] = cut(execution.lists(stage), LISTED)
        return rankings
