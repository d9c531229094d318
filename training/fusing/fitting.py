"""Judgments → labels of the pool's documents → what a model fitted to them gives on other topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from submission.errors import TrainingError
from submission.fusion.linear import standardised
from training.fusing.recipe import Fit

PAIR = ["qid", "docno"]


@dataclass(frozen=True)
class Labelled:
    """Labelled documents, which may occur several times."""

    names: list[str]  # of the features
    features: np.ndarray  # (N, F), standardised
    labels: np.ndarray  # (N,), the larger the better
    topics: np.ndarray  # (N,) the numbers of their topics


class Scorer(Protocol):
    """A fitted model."""

    def scores(self, features: np.ndarray) -> np.ndarray:
        """The scores (N,) of standardised features (N, F)."""


Model = Callable[[Labelled], Scorer]


class Fitting:
    """The pool's standardised features with their labels."""

    def __init__(self, table: pd.DataFrame, judged: Sequence[pd.DataFrame], settings: Fit) -> None:
        """Standardise and label them.

        Args:
            table: `qid docno` and a column a feature, of all documents of the pools.
            judged: `qid docno rel`; of two, the labels are a mixture.
            settings: how.

        Raises:
            TrainingError: fewer than two topics have a judged document in their pools.
        """
        found = standardised(table, table)
        self.pairs, self.names, self._seed = table[PAIR], list(found), settings.seed
        self.features = np.stack(list(found.values()), axis=1)  # (N, F)
        self.labels = labels(self.pairs, judged, settings)  # (N,), NaN: not fitted to
        self._topics, _ = pd.factorize(self.pairs["qid"])
        topics = self.pairs["qid"][~np.isnan(self.labels)].nunique()
        if topics < 2:
            raise TrainingError(
                f"{topics} topics have judged documents in their pools, expected two or more; are these its qrels?"
            )

    def labelled(self, rows: np.ndarray | None = None) -> Labelled:
        """Return features and labels of the labelled rows, of all or of some, which may repeat."""
        rows = np.arange(len(self.labels)) if rows is None else rows
        rows = rows[~np.isnan(self.labels[rows])]
        return Labelled(self.names, self.features[rows], self.labels[rows], self._topics[rows])

    def resampled(self, times: int) -> Iterator[Labelled]:
        """Yield labelled rows of topics drawn with replacement, so many times."""
        labelled = np.flatnonzero(~np.isnan(self.labels))
        rows = [labelled[places] for places in self.pairs.iloc[labelled].groupby("qid").indices.values()]
        rng = np.random.default_rng(self._seed)
        for _ in range(times):
            yield self.labelled(np.concatenate([rows[topic] for topic in rng.integers(len(rows), size=len(rows))]))

    def cross_validated(self, model: Model, folds: Mapping[str, int]) -> pd.DataFrame:
        """Scores `qid docno score` of the folds' topics, each by what was fitted without its fold."""
        fold = self.pairs["qid"].map(folds).fillna(-1).to_numpy(int)
        scores = np.zeros(len(fold))
        for number in sorted({*folds.values()}):
            inside = np.flatnonzero(fold == number)
            scores[inside] = model(self.labelled(np.flatnonzero(fold != number))).scores(self.features[inside])
        return self.pairs.assign(score=scores)[fold >= 0]

    def scored(self, fitted: Scorer) -> pd.DataFrame:
        """Scores `qid docno score` of all documents."""
        return self.pairs.assign(score=fitted.scores(self.features))


def labels(pairs: pd.DataFrame, judged: Sequence[pd.DataFrame], settings: Fit) -> np.ndarray:
    """The labels (N,) of pairs `qid docno`; NaN: none.

    A judged document has its judgment; of two files, a mixture of both where both judge it. Of the documents of a judged topic
    that no file judges, a seeded sample has 0: it depends on topic and pool alone.
    """
    found = [pairs.merge(frame, on=PAIR, how="left")["rel"].to_numpy(float) for frame in judged]
    shares = [1.0] if len(found) == 1 else [1 - settings.share, settings.share]
    labels = np.asarray(sum(share * values for share, values in zip(shares, found, strict=True)))
    unjudged = np.isnan(np.stack(found)).all(axis=0)
    for qid, places in pairs.groupby("qid").indices.items():
        if not unjudged[places].all():
            candidates = places[unjudged[places]]
            candidates = candidates[np.argsort(pairs["docno"].to_numpy()[candidates])]
            rng = np.random.default_rng([settings.seed, *str(qid).encode()])
            labels[rng.permutation(candidates)[: settings.unjudged]] = 0.0
    return labels
