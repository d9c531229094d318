"""Learned fusion: a weighted sum of member scores and document length over the members' pooled
candidates."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from aragorn.fusion.linear import (
    LENGTH_FEATURE,
    LinearFusion,
    compute_log_lengths,
    standardise_by_topic,
)
from aragorn.rankings import sort_by_topic, truncate_rankings
from aragorn.systems.execution import CheckpointStore, Execution, Stage
from aragorn.systems.explanation import ExplanationRow, ScoreExplanation
from aragorn.systems.fusion import FusionStage, attribute_errors

PAIR_COLUMNS = ["qid", "docno"]


@dataclass(frozen=True)
class LearnedFusionStage(FusionStage):
    """A weighted sum of features standardised over the topic's pool (the members' top documents or
    the supplied ranking)."""

    fuse_options = "-i INPUT --qrels QRELS --work-dir WORK_DIR"

    def load_checkpoint(self, checkpoints: CheckpointStore) -> LinearFusion:
        return self.load_model(checkpoints, LinearFusion)

    def search(self, execution: Execution) -> pd.DataFrame:
        """Rank all documents of each topic's pool."""
        return self.rank_pairs(execution, self._get_pool_features(execution)[PAIR_COLUMNS])

    def score(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Score pairs; the pool's mean and standard deviation also standardise the features of
        pairs outside the pool."""
        features = standardise_by_topic(
            self._get_pair_features(execution, pairs), self._get_pool_features(execution)
        )
        return self.load_checkpoint(execution.checkpoints).score(features)

    def explain(self, execution: Execution, qid: str, docno: str) -> ScoreExplanation:
        """Break the score down by member and document length, plus the intercept."""
        model, pool = (
            self.load_checkpoint(execution.checkpoints),
            self._get_pool_features(execution),
        )
        raw = self._get_pair_features(execution, pd.DataFrame({"qid": [qid], "docno": [docno]}))
        features = standardise_by_topic(raw, pool)
        rows = [ExplanationRow(model.intercept, "intercept")]
        for name, [contribution] in model.compute_contributions(features).items():
            z_score = features[name].item()
            note = f"raw score {raw[name].item():.4f}, z-score {z_score:+.3f} over the pool, weight {model.weights[name]:.4f}"
            rows.append(ExplanationRow(float(contribution), name, note))
        summary = f"weighted sum of {model.feature_description}, standardised over the topic's pool"
        if docno not in set(pool.loc[pool["qid"] == qid, "docno"]):
            summary += "; the document is not in the pool: no member retrieved it"
        return ScoreExplanation(model.score(features).item(), summary, rows)

    def format_formula(self, checkpoints: CheckpointStore) -> str:
        return f"score = {checkpoints.load_config(self.checkpoint, LinearFusion).format_formula()}"

    def build_pool(self, execution: Execution, model: LinearFusion) -> pd.DataFrame:
        """Return the pools of all topics as pairs `qid docno`: the supplied ranking or the members'
        top documents."""
        if execution.supplied_ranking is not None:
            return execution.supplied_ranking[PAIR_COLUMNS]
        stages, candidates = dict(self.members), []
        for member in (member for member in model.members if member.pool_depth):
            with attribute_errors(member.name):
                ranking = execution.get_ranking(stages[member.name])
            candidates.append(truncate_rankings(ranking, member.pool_depth)[PAIR_COLUMNS])
        return sort_by_topic(
            pd.concat(candidates).drop_duplicates(), execution.topics, ["docno"], ascending=[True]
        )

    def compute_features(
        self, execution: Execution, model: LinearFusion, pairs: pd.DataFrame
    ) -> pd.DataFrame:
        """Return pairs `qid docno` with the model's raw features, one column per feature."""
        stages, columns = dict(self.members), {}
        for member in model.members:
            with attribute_errors(member.name):
                columns[member.name] = _get_member_scores(
                    execution, stages[member.name], member.pool_depth > 0, pairs
                )
        if model.length is not None:
            premises = execution.documents.read_texts(set(pairs["docno"])).set_index("docno")[
                "premise"
            ]
            columns[LENGTH_FEATURE] = compute_log_lengths(
                premises.loc[pairs["docno"]], model.length.cap
            )
        return pairs[PAIR_COLUMNS].assign(**columns)

    def _get_pool_features(self, execution: Execution) -> pd.DataFrame:
        """Return the pool with its raw features, computed once."""
        model = self.load_checkpoint(execution.checkpoints)
        return execution.compute_once(
            self,
            "pool",
            lambda: self.compute_features(execution, model, self.build_pool(execution, model)),
        )

    def _get_pair_features(self, execution: Execution, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return pairs with their raw features, which are computed only for pairs outside the
        pool."""
        features = pairs[PAIR_COLUMNS].merge(
            self._get_pool_features(execution), on=PAIR_COLUMNS, how="left"
        )
        is_unpooled = features.isna().any(axis=1)
        if is_unpooled.any():
            unpooled_pairs = features.loc[is_unpooled, PAIR_COLUMNS].reset_index(drop=True)
            unpooled_features = self.compute_features(
                execution, self.load_checkpoint(execution.checkpoints), unpooled_pairs
            )
            features.loc[is_unpooled] = unpooled_features.set_index(features.index[is_unpooled])
        return features


def _get_member_scores(
    execution: Execution, stage: Stage, adds_candidates: bool, pairs: pd.DataFrame
) -> np.ndarray:
    """Compute a member's scores (N,) of N pairs; reuse those in its ranking if it adds candidates
    to the pool."""
    scores = np.full(len(pairs), np.nan)
    if adds_candidates and execution.supplied_ranking is None:
        ranking = execution.get_ranking(stage)[[*PAIR_COLUMNS, "score"]]
        scores = (
            pairs[PAIR_COLUMNS]
            .merge(ranking, on=PAIR_COLUMNS, how="left")["score"]
            .to_numpy(float, copy=True)
        )
    is_missing = np.isnan(scores)
    if is_missing.any():
        scores[is_missing] = stage.score(
            execution, pairs.loc[is_missing, PAIR_COLUMNS].reset_index(drop=True)
        )
    return scores
