"""The learned fusion: a weighted sum of the members' scores and the document's length, over all documents that some propose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from submission import lists
from submission.fusion.linear import LENGTH, Linear, log_lengths, open_linear, standardised
from submission.systems.execution import Execution, Stage
from submission.systems.explained import Explained, Row
from submission.systems.fusion import Fusion, needed
from submission.systems.remembered import Checkpoints

PAIR = ["qid", "docno"]


@dataclass(frozen=True)
class LearnedFusion(Fusion):
    """A weighted sum of features, each standardised over the topic's pool: the members' best documents together or, where a
    list was handed over, that list. A score is a function of topic, document and pool.
    """

    def opened(self, checkpoints: Checkpoints) -> Linear:
        """Raises CheckpointError: it was fitted with other members, or with other checkpoints of these."""
        return self.model(checkpoints, open_linear)

    def search(self, execution: Execution) -> pd.DataFrame:
        """All documents of the pools."""
        pairs = self._pool(execution)[PAIR]
        return lists.ranked(pairs.assign(score=self.scores(execution, pairs)), execution.topics)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """A document outside of the pool is compared with those in it, which it does not change."""
        features = standardised(self._known(execution, pairs), self._pool(execution))
        return self.opened(execution.checkpoints).scores(features)

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Explain the shares of the members and of the length."""
        model, pool = self.opened(execution.checkpoints), self._pool(execution)
        known = self._known(execution, pd.DataFrame({"qid": [qid], "docno": [docno]}))
        features = standardised(known, pool)
        rows = [Row(model.intercept, "intercept")]
        for name, [share] in model.parts(features).items():
            own = f"{known[name].item():.4f}, which is {features[name].item():+.3f} deviations from the pool's mean"
            rows.append(Row(float(share), name, f"{own}, times {model.weights[name]:.4f}"))
        how = f"a sum over {model.added}, standardised over the topic's pool"
        if docno not in set(pool.loc[pool["qid"] == qid, "docno"]):
            how += ", where it is not: no member proposes it"
        return Explained(model.scores(features).item(), how, rows)

    def formula(self, checkpoints: Checkpoints) -> str:
        return f"score = {checkpoints.opened(self.checkpoint, open_linear).formula()}"

    def pool(self, execution: Execution, model: Linear) -> pd.DataFrame:
        """The pairs `qid docno` of all topics' pools."""
        if execution.given is not None:
            return execution.given[PAIR]
        stages, proposed = dict(self.members), []
        for member in model.members:
            if member.best:
                with needed(member.name):
                    proposed.append(lists.cut(execution.lists(stages[member.name]), member.best)[PAIR])
        return lists.by_topic(pd.concat(proposed).drop_duplicates(), execution.topics, ["docno"], ascending=[True])

    def features(self, execution: Execution, model: Linear, pairs: pd.DataFrame) -> pd.DataFrame:
        """Pairs `qid docno` with the features of a model, as they are: a column of its name each."""
        stages, columns = dict(self.members), {}
        for member in model.members:
            with needed(member.name):
                columns[member.name] = _scores(execution, stages[member.name], member.best > 0, pairs)
        if model.length is not None:
            premises = execution.documents.texts(set(pairs["docno"])).set_index("docno")["premise"]
            columns[LENGTH] = log_lengths(premises.loc[pairs["docno"]], model.length.most)
        return pairs[PAIR].assign(**columns)

    def _pool(self, execution: Execution) -> pd.DataFrame:
        """With its features, computed once."""
        model = self.opened(execution.checkpoints)
        return execution.once(self, "pool", lambda: self.features(execution, model, self.pool(execution, model)))

    def _known(self, execution: Execution, pairs: pd.DataFrame) -> pd.DataFrame:
        """Pairs with their features; in the pool, these are the pool's."""
        known = pairs[PAIR].merge(self._pool(execution), on=PAIR, how="left")
        outside = known.isna().any(axis=1)
        if outside.any():
            others = known.loc[outside, PAIR].reset_index(drop=True)
            found = self.features(execution, self.opened(execution.checkpoints), others)
            known.loc[outside] = found.set_index(known.index[outside])
        return known


def _scores(execution: Execution, stage: Stage, proposes: bool, pairs: pd.DataFrame) -> np.ndarray:
    """A member's scores (N,) of pairs: those of its list, where it has them, are not computed again."""
    scores = np.full(len(pairs), np.nan)
    if proposes and execution.given is None:
        listed = execution.lists(stage)[[*PAIR, "score"]]
        scores = pairs[PAIR].merge(listed, on=PAIR, how="left")["score"].to_numpy(float, copy=True)
    absent = np.isnan(scores)
    if absent.any():
        scores[absent] = stage.scores(execution, pairs.loc[absent, PAIR].reset_index(drop=True))
    return scores
