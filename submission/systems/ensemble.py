"""The regression ensemble: a linear regression over the scores of several stages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from submission import lists
from submission.fusion.regression import LISTED, Regression, open_regression
from submission.systems.execution import Execution
from submission.systems.explained import Explained, Row
from submission.systems.fusion import Fusion, needed
from submission.systems.remembered import Checkpoints


@dataclass(frozen=True)
class Ensemble(Fusion):
    """A regression over the scores of the members' best documents (thesis 3.6)."""

    def opened(self, checkpoints: Checkpoints) -> Regression:
        """Raises CheckpointError: it was fitted with other members, or with other checkpoints of these."""
        return self.model(checkpoints, open_regression)

    def search(self, execution: Execution) -> pd.DataFrame:
        """All documents that a member lists among its best."""
        combined = self.opened(execution.checkpoints).combine(self._listed(execution))
        return lists.ranked(combined, execution.topics)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """A document that no member lists among its best has the intercept."""
        regression = self.opened(execution.checkpoints)
        combined = regression.combine(self._listed(execution))
        found = pairs[["qid", "docno"]].merge(combined, on=["qid", "docno"], how="left")["score"]
        return found.fillna(regression.intercept).to_numpy()

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Explain the share of each member."""
        regression, listed = self.opened(execution.checkpoints), self._listed(execution)
        rows = [Row(regression.intercept, "intercept")]
        for member in regression.members:
            score = listed[member.name].set_index("docno")["score"].get(docno)
            share = 0.0 if score is None else member.coefficient * member.normalised(np.array([score])).item()
            how = f"not among its best {LISTED}" if score is None else f"its score {score:.4f}, times {member.coefficient:.4f}"
            rows.append(Row(share, member.name, how))
        how = "a sum over the members' scores, each brought to [0, 1], and the intercept"
        if not any((lists["docno"] == docno).any() for lists in listed.values()):
            how = f"the intercept: it is not among the best {LISTED} of any member"
        [total] = self.scores(execution, pd.DataFrame({"qid": [qid], "docno": [docno]}))
        return Explained(total, how, rows)

    def formula(self, checkpoints: Checkpoints) -> str:
        return f"score = {checkpoints.opened(self.checkpoint, open_regression).formula()}"

    def _listed(self, execution: Execution) -> dict[str, pd.DataFrame]:
        """Return each member's best documents, which are taken from it."""
        found = {}
        for name, stage in self.members:
            with needed(name):
                found[name] = lists.cut(execution.lists(stage), LISTED)
        return found
