"""Regression ensemble: linear regression over the scores of several stages."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from aragorn.fusion.regression import MEMBER_DEPTH, RegressionEnsemble
from aragorn.rankings import rank_by_score, truncate_rankings
from aragorn.systems.execution import CheckpointStore, Execution
from aragorn.systems.explanation import ExplanationRow, ScoreExplanation
from aragorn.systems.fusion import FusionStage, attribute_errors


@dataclass(frozen=True)
class EnsembleStage(FusionStage):
    """Linear regression over the scores of the members' top documents (Entezari 2020, section
    3.6)."""

    fuse_options = "--work-dir WORK_DIR"

    def load_checkpoint(self, checkpoints: CheckpointStore) -> RegressionEnsemble:
        return self.load_model(checkpoints, RegressionEnsemble)

    def search(self, execution: Execution) -> pd.DataFrame:
        """Rank the union of the members' top `MEMBER_DEPTH` documents."""
        fused_scores = self.load_checkpoint(execution.checkpoints).score_rankings(
            self._get_member_rankings(execution)
        )
        return rank_by_score(fused_scores, execution.topics)

    def score(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Score pairs; the score of a document in no member's top documents is the intercept."""
        regression = self.load_checkpoint(execution.checkpoints)
        fused_scores = regression.score_rankings(self._get_member_rankings(execution))
        scores = pairs[["qid", "docno"]].merge(fused_scores, on=["qid", "docno"], how="left")[
            "score"
        ]
        return scores.fillna(regression.intercept).to_numpy()

    def explain(self, execution: Execution, qid: str, docno: str) -> ScoreExplanation:
        """Break the score down by member, plus the intercept."""
        regression, rankings = (
            self.load_checkpoint(execution.checkpoints),
            self._get_member_rankings(execution),
        )
        rows = [ExplanationRow(regression.intercept, "intercept")]
        for member in regression.members:
            score = rankings[member.name].set_index("docno")["score"].get(docno)
            if score is None:
                rows.append(
                    ExplanationRow(0.0, member.name, f"not in the member's top {MEMBER_DEPTH}")
                )
                continue
            scaled_score = member.min_max_scale(np.array([score])).item()
            note = f"score {score:.4f}, min-max scaled {scaled_score:.4f}, weight {member.coefficient:.4f}"
            rows.append(ExplanationRow(member.coefficient * scaled_score, member.name, note))
        summary = "weighted sum of the members' min-max scaled scores, plus the intercept"
        if not any((ranking["docno"] == docno).any() for ranking in rankings.values()):
            summary = f"intercept only: the document is not in any member's top {MEMBER_DEPTH}"
        return ScoreExplanation(self.score_document(execution, qid, docno), summary, rows)

    def format_formula(self, checkpoints: CheckpointStore) -> str:
        return f"score = {checkpoints.load_config(self.checkpoint, RegressionEnsemble).format_formula()}"

    def _get_member_rankings(self, execution: Execution) -> dict[str, pd.DataFrame]:
        """Return the top `MEMBER_DEPTH` documents of each member, by member name."""
        rankings = {}
        for name, stage in self.members:
            with attribute_errors(name):
                rankings[name] = truncate_rankings(execution.get_ranking(stage), MEMBER_DEPTH)
        return rankings
