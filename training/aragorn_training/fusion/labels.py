"""Label pooled documents and build training sets for learners."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from aragorn.errors import TrainingError, pluralise
from aragorn.fusion.weighted_sum import PAIR_COLUMNS, standardise_by_topic
from aragorn_training.fusion.recipe import FitSettings


@dataclass(frozen=True)
class TrainingSet:
    """Labelled query-document pairs; a bootstrap sample repeats some."""

    feature_names: list[str]
    features: np.ndarray  # (N, F), standardised
    labels: np.ndarray  # (N,), higher is better
    topics: np.ndarray  # (N,) topic indices


class FittedModel(Protocol):
    """A model that scores documents, fitted by a learner."""

    def score(self, features: np.ndarray) -> np.ndarray:
        """Return the scores (N,) of standardised features (N, F)."""


Learner = Callable[[TrainingSet], FittedModel]


class LabelledPool:
    """Standardised features and labels of the pooled documents."""

    def __init__(
        self, table: pd.DataFrame, qrels: Sequence[pd.DataFrame], settings: FitSettings
    ) -> None:
        """Standardise the features and label the pairs.

        Args:
            table: All pooled documents, `qid docno` and one column per feature.
            qrels: One or two tables of judgments `qid docno rel`; of two, the weighted mean is the
                label.
            settings: Weight of the second qrels, and number and seed of the unjudged documents
                labelled 0.

        Raises:
            TrainingError: If fewer than two topics have a judged document in the pool.
        """
        features = standardise_by_topic(table, table)
        self.pairs = table[PAIR_COLUMNS]
        self.names = list(features)
        self._seed = settings.seed
        self.features = np.stack(list(features.values()), axis=1)  # (N, F)
        self.labels = label_pairs(self.pairs, qrels, settings)  # (N,), NaN: unlabelled
        self._topics, _ = pd.factorize(self.pairs["qid"])
        topic_count = self.pairs["qid"][~np.isnan(self.labels)].nunique()
        if topic_count < 2:
            topics = pluralise(topic_count, "topic")
            raise TrainingError(
                f"{topics} with judged documents in the pool, but at least 2 are needed; check "
                "qrels and input"
            )

    def build_training_set(self, rows: np.ndarray | None = None) -> TrainingSet:
        """Build a training set of the labelled rows among `rows` (default: all), which may contain
        duplicates."""
        rows = np.arange(len(self.labels)) if rows is None else rows
        rows = rows[~np.isnan(self.labels[rows])]
        return TrainingSet(self.names, self.features[rows], self.labels[rows], self._topics[rows])

    def bootstrap(self, sample_count: int) -> Iterator[TrainingSet]:
        """Yield `sample_count` training sets: of T labelled topics, each has T topics sampled with
        replacement."""
        labelled_rows = np.flatnonzero(~np.isnan(self.labels))
        rows = [
            labelled_rows[positions]
            for positions in self.pairs.iloc[labelled_rows].groupby("qid").indices.values()
        ]
        rng = np.random.default_rng(self._seed)
        for _ in range(sample_count):
            yield self.build_training_set(
                np.concatenate([rows[topic] for topic in rng.integers(len(rows), size=len(rows))])
            )

    def score_held_out_topics(self, learner: Learner, folds: Mapping[str, int]) -> pd.DataFrame:
        """Score the topics of all folds, each topic by a model fitted without its fold; return `qid
        docno score`."""
        pair_folds = self.pairs["qid"].map(folds).fillna(-1).to_numpy(int)
        scores = np.zeros(len(pair_folds))
        for fold in sorted({*folds.values()}):
            rows = np.flatnonzero(pair_folds == fold)
            scores[rows] = learner(
                self.build_training_set(np.flatnonzero(pair_folds != fold))
            ).score(self.features[rows])
        return self.pairs.assign(score=scores)[pair_folds >= 0]

    def score(self, model: FittedModel) -> pd.DataFrame:
        """Score all pairs; return `qid docno score`."""
        return self.pairs.assign(score=model.score(self.features))


def label_pairs(
    pairs: pd.DataFrame, qrels: Sequence[pd.DataFrame], settings: FitSettings
) -> np.ndarray:
    """Return the labels (N,) of pairs `qid docno`; NaN for unlabelled pairs.

    A judged document's label is its grade, or the weighted mean of two qrels if both judge it. In
    judged topics, a random sample of unjudged documents gets label 0; the sample depends on seed,
    topic and pool only.
    """
    grades = [
        pairs.merge(frame, on=PAIR_COLUMNS, how="left")["rel"].to_numpy(float) for frame in qrels
    ]
    weights = (
        [1.0]
        if len(grades) == 1
        else [1 - settings.second_qrels_weight, settings.second_qrels_weight]
    )
    labels = np.asarray(
        sum(weight * values for weight, values in zip(weights, grades, strict=True))
    )
    is_unjudged = np.isnan(np.stack(grades)).all(axis=0)
    for qid, rows in pairs.groupby("qid").indices.items():
        if not is_unjudged[rows].all():
            candidates = rows[is_unjudged[rows]]
            candidates = candidates[np.argsort(pairs["docno"].to_numpy()[candidates])]
            rng = np.random.default_rng([settings.seed, *str(qid).encode()])
            labels[rng.permutation(candidates)[: settings.unjudged_per_topic]] = 0.0
    return labels
