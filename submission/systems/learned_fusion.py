"""Learned fusion: a weighted sum of member scores and document length over the members' pooled candidates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from submission.fusion.linear import LENGTH, Linear, log_lengths, standardised
from submission.rankings import by_topic, cut, ranked
from submission.systems.checkpoint_store import Checkpoints
from submission.systems.execution import Execution, Stage
from submission.systems.explanation import Explained, Row
from submission.systems.fusion import Fusion, needed

PAIR = ["qid", "docno"]


@dataclass(frozen=True)
class LearnedFusion(Fusion):
    """A weighted sum of features standardised over the topic's pool.

    The pool is the union of the members' top documents, or the supplied ranking. A score depends only on topic, document and
    pool.
    """

    def opened(self, checkpoints: Checkpoints) -> Linear:
        """Load the model. Raises CheckpointError if it was fitted with other members or other checkpoints."""
        return self.model(checkpoints, Linear)

    def search(self, execution: Execution) -> pd.DataFrame:
        """Rank the pooled documents."""
        pairs = self._pool(execution)[PAIR]
        return ranked(pairs.assign(score=self.scores(execution, pairs)), execution.topics)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Score pairs; documents outside the pool are standardised by its statistics without changing them."""
        features = standardised(self._known(execution, pairs), self._pool(execution))
        return self.opened(execution.checkpoints).scores(features)

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Break the score down by member and document length."""
        model, pool = self.opened(execution.checkpoints), self._pool(execution)
        raw = self._known(execution, pd.DataFrame({"qid": [qid], "docno": [docno]}))
        features = standardised(raw, pool)
        rows = [Row(model.intercept, "intercept")]
        for name, [contribution] in model.parts(features).items():
            z_score = features[name].item()
            note = f"raw score {raw[name].item():.4f}, z-score {z_score:+.3f} over the pool, weight {model.weights[name]:.4f}"
            rows.append(Row(float(contribution), name, note))
        summary = f"weighted sum of {model.added}, standardised over the topic's pool"
        if docno not in set(pool.loc[pool["qid"] == qid, "docno"]):
            summary += "; the document is not in the pool: no member retrieved it"
        return Explained(model.scores(features).item(), summary, rows)

    def formula(self, checkpoints: Checkpoints) -> str:
        return f"score = {checkpoints.load_config(self.checkpoint, Linear).formula()}"

    def pool(self, execution: Execution, model: Linear) -> pd.DataFrame:
        """Return the pairs `qid docno` of all topics' pools."""
        if execution.given is not None:
            return execution.given[PAIR]
        stages, candidates = dict(self.members), []
        for member in model.members:
            if member.best:
                with needed(member.name):
                    candidates.append(cut(execution.lists(stages[member.name]), member.best)[PAIR])
        return by_topic(pd.concat(candidates).drop_duplicates(), execution.topics, ["docno"], ascending=[True])

    def features(self, execution: Execution, model: Linear, pairs: pd.DataFrame) -> pd.DataFrame:
        """Compute a model's raw features for pairs `qid docno`, one column each."""
        stages, columns = dict(self.members), {}
        for member in model.members:
            with needed(member.name):
                columns[member.name] = _scores(execution, stages[member.name], member.best > 0, pairs)
        if model.length is not None:
            premises = execution.documents.texts(set(pairs["docno"])).set_index("docno")["premise"]
            columns[LENGTH] = log_lengths(premises.loc[pairs["docno"]], model.length.most)
        return pairs[PAIR].assign(**columns)

    def _pool(self, execution: Execution) -> pd.DataFrame:
        """Return the pool with its features; computed once."""
        model = self.opened(execution.checkpoints)
        return execution.once(self, "pool", lambda: self.features(execution, model, self.pool(execution, model)))

    def _known(self, execution: Execution, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return pairs with their features, taken from the pool if they are in it."""
        features = pairs[PAIR].merge(self._pool(execution), on=PAIR, how="left")
        unpooled = features.isna().any(axis=1)
        if unpooled.any():
            unpooled_pairs = features.loc[unpooled, PAIR].reset_index(drop=True)
            computed = self.features(execution, self.opened(execution.checkpoints), unpooled_pairs)
            features.loc[unpooled] = computed.set_index(features.index[unpooled])
        return features


def _scores(execution: Execution, stage: Stage, proposes: bool, pairs: pd.DataFrame) -> np.ndarray:
    """Score pairs (N,) with a member; reuse its ranking if it covers them."""
    scores = np.full(len(pairs), np.nan)
    if proposes and execution.given is None:
        ranking = execution.lists(stage)[[*PAIR, "score"]]
        scores = pairs[PAIR].merge(ranking, on=PAIR, how="left")["score"].to_numpy(float, copy=True)
    missing = np.isnan(scores)
    if missing.any():
        scores[missing] = stage.scores(execution, pairs.loc[missing, PAIR].reset_index(drop=True))
    return scores
