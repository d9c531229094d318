"""Label pooled documents and build training sets for learners."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from submission.errors import TrainingError
from submission.fusion.linear import standardised
from submission.systems.learned_fusion import PAIR
from training.fusion.recipe import Fit


@dataclass(frozen=True)
class Labelled:
    """Labelled query-document pairs; pairs may repeat."""

    names: list[str]  # feature names
    features: np.ndarray  # (N, F), standardised
    labels: np.ndarray  # (N,), larger is better
    topics: np.ndarray  # (N,) topic indices


class Scorer(Protocol):
    """A fitted model."""

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Score standardised features (N, F)."""


Model = Callable[[Labelled], Scorer]


class Fitting:
    """Standardised features and labels of the pooled documents."""

    def __init__(self, table: pd.DataFrame, judged: Sequence[pd.DataFrame], settings: Fit) -> None:
        """Standardise the features and label the pairs.

        Args:
            table: `qid docno` and one column per feature, for all pooled documents.
            judged: Frames `qid docno rel`; with two, labels are a weighted mean.
            settings: Fit settings.

        Raises:
            TrainingError: If fewer than two topics have a judged document in the pool.
        """
        features = standardised(table, table)
        self.pairs, self.names, self._seed = table[PAIR], list(features), settings.seed
        self.features = np.stack(list(features.values()), axis=1)  # (N, F)
        self.labels = labels(self.pairs, judged, settings)  # (N,), NaN: unlabelled
        self._topics, _ = pd.factorize(self.pairs["qid"])
        topics = self.pairs["qid"][~np.isnan(self.labels)].nunique()
        if topics < 2:
            raise TrainingError(
                f"{topics} topics with judged documents in the pool; expected at least 2. Do the qrels match the input?"
            )

    def labelled(self, rows: np.ndarray | None = None) -> Labelled:
        """Return the labelled rows, or a selection with repetition, as a training set."""
        rows = np.arange(len(self.labels)) if rows is None else rows
        rows = rows[~np.isnan(self.labels[rows])]
        return Labelled(self.names, self.features[rows], self.labels[rows], self._topics[rows])

    def resampled(self, times: int) -> Iterator[Labelled]:
        """Yield training sets of topics sampled with replacement."""
        labelled = np.flatnonzero(~np.isnan(self.labels))
        rows = [labelled[positions] for positions in self.pairs.iloc[labelled].groupby("qid").indices.values()]
        rng = np.random.default_rng(self._seed)
        for _ in range(times):
            yield self.labelled(np.concatenate([rows[topic] for topic in rng.integers(len(rows), size=len(rows))]))

    def cross_validated(self, model: Model, folds: Mapping[str, int]) -> pd.DataFrame:
        """Score the folds' topics, each with a model fitted without its fold: `qid docno score`."""
        fold_of = self.pairs["qid"].map(folds).fillna(-1).to_numpy(int)
        scores = np.zeros(len(fold_of))
        for fold in sorted({*folds.values()}):
            in_fold = np.flatnonzero(fold_of == fold)
            scores[in_fold] = model(self.labelled(np.flatnonzero(fold_of != fold))).scores(self.features[in_fold])
        return self.pairs.assign(score=scores)[fold_of >= 0]

    def scored(self, fitted: Scorer) -> pd.DataFrame:
        """Score all pairs: `qid docno score`."""
        return self.pairs.assign(score=fitted.scores(self.features))


def labels(pairs: pd.DataFrame, judged: Sequence[pd.DataFrame], settings: Fit) -> np.ndarray:
    """Label pairs `qid docno` (N,); unlabelled pairs are NaN.

    A judged document's label is its grade, or the weighted mean of two qrels if both judge it. In judged topics, a seeded
    sample of unjudged documents gets label 0; the sample depends on topic and pool only.
    """
    grades = [pairs.merge(frame, on=PAIR, how="left")["rel"].to_numpy(float) for frame in judged]
    weights = [1.0] if len(grades) == 1 else [1 - settings.share, settings.share]
    labels = np.asarray(sum(weight * values for weight, values in zip(weights, grades, strict=True)))
    unjudged = np.isnan(np.stack(grades)).all(axis=0)
    for qid, rows in pairs.groupby("qid").indices.items():
        if not unjudged[rows].all():
            candidates = rows[unjudged[rows]]
            candidates = candidates[np.argsort(pairs["docno"].to_numpy()[candidates])]
            rng = np.random.default_rng([settings.seed, *str(qid).encode()])
            labels[rng.permutation(candidates)[: settings.unjudged]] = 0.0
    return labels
