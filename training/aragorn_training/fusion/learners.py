"""Fit the learners of a fusion: ridge regression, RankNet and LambdaMART."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LinearRegression, Ridge
from torch import nn
from torch.nn import functional

from aragorn.errors import TrainingError, pluralise
from aragorn.systems.weighted_sum import PAIR_COLUMNS, standardise_by_topic
from aragorn_training.fusion.recipe import FitSettings, LambdaMARTSettings, RankNetSettings

VERSION = 1  # of models fitted to the same examples
COMPUTES_WITH = (
    "aragorn.systems.weighted_sum",
    "lightgbm",
    "numpy",
    "pandas",
    "scikit-learn",
    "torch",
)


@dataclass(frozen=True)
class TrainingSet:
    """Labelled query-document pairs; a bootstrap sample repeats some."""

    feature_names: list[str]
    features: np.ndarray  # (N, F), standardised
    labels: np.ndarray  # (N,), higher is better
    topics: np.ndarray  # (N,) topic indices


@dataclass(frozen=True)
class LinearModel:
    """A fitted linear regression: the intercept and weights that a checkpoint stores."""

    intercept: float
    weights: dict[str, float]  # by feature name

    def score(self, features: np.ndarray) -> np.ndarray:
        """Return the scores (N,) of normalised features (N, F)."""
        # A matrix product may round equal rows differently.
        return np.asarray(
            self.intercept + (features * np.array(list(self.weights.values()))).sum(axis=1)
        )


class OtherModel(NamedTuple):
    """A fitted model that is no linear regression."""

    score: Callable[[np.ndarray], np.ndarray]  # standardised features (N, F) → scores (N,)


FittedModel = LinearModel | OtherModel
Learner = Callable[[TrainingSet], FittedModel]


class LabelledPool:
    """Standardised features and labels of the pooled documents."""

    def __init__(
        self, table: pd.DataFrame, qrels: Sequence[pd.DataFrame], settings: FitSettings
    ) -> None:
        """Standardise the features of all pooled documents (`qid docno` and a column per feature),
        and label them by one or two tables `qid docno rel`; raise TrainingError if fewer than two
        topics have a judged document in the pool."""
        features = standardise_by_topic(table, table)
        self.pairs = table[PAIR_COLUMNS]
        self.names = list(features)
        self._seed = settings.seed
        self.features = np.stack(list(features.values()), axis=1)  # (N, F)
        self.labels = label_pairs(self.pairs, qrels, settings)  # (N,), NaN: unlabelled
        self._topics, _ = pd.factorize(self.pairs["qid"])
        n_topics = self.pairs["qid"][~np.isnan(self.labels)].nunique()
        if n_topics < 2:
            topics = pluralise(n_topics, "topic")
            raise TrainingError(
                f"{topics} with judged documents in the pool, but at least 2 are needed; check "
                "qrels and input"
            )

    def build_training_set(self, rows: np.ndarray | None = None) -> TrainingSet:
        """Build a training set of the labelled rows among `rows`, maybe repeated (default: all)."""
        rows = np.arange(len(self.labels)) if rows is None else rows
        rows = rows[~np.isnan(self.labels[rows])]
        return TrainingSet(self.names, self.features[rows], self.labels[rows], self._topics[rows])

    def bootstrap(self, n_samples: int) -> Iterator[TrainingSet]:
        """Yield training sets of as many topics as are labelled, sampled with replacement."""
        labelled_rows = np.flatnonzero(~np.isnan(self.labels))
        groups = self.pairs.iloc[labelled_rows].groupby("qid").indices.values()
        rows = [labelled_rows[positions] for positions in groups]
        rng = np.random.default_rng(self._seed)
        for _ in range(n_samples):
            topics = rng.integers(len(rows), size=len(rows))
            yield self.build_training_set(np.concatenate([rows[topic] for topic in topics]))

    def score_held_out_topics(self, learner: Learner, folds: Mapping[str, int]) -> pd.DataFrame:
        """Score each topic by a model fitted without its fold; return `qid docno score`."""
        pair_folds = self.pairs["qid"].map(folds).fillna(-1).to_numpy(int)
        scores = np.zeros(len(pair_folds))
        for fold in sorted({*folds.values()}):
            rows = np.flatnonzero(pair_folds == fold)
            model = learner(self.build_training_set(np.flatnonzero(pair_folds != fold)))
            scores[rows] = model.score(self.features[rows])
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
    tables = [pairs.merge(frame, on=PAIR_COLUMNS, how="left") for frame in qrels]
    grades = [table["rel"].to_numpy(float) for table in tables]
    weight = settings.second_qrels_weight
    weights = [1 - weight, weight] if len(grades) > 1 else [1.0]
    labels = np.asarray(sum(map(operator.mul, weights, grades)))
    is_unjudged = np.isnan(np.stack(grades)).all(axis=0)
    for qid, rows in pairs.groupby("qid").indices.items():
        if not is_unjudged[rows].all():
            candidates = rows[is_unjudged[rows]]
            candidates = candidates[np.argsort(pairs["docno"].to_numpy()[candidates])]
            rng = np.random.default_rng([settings.seed, *str(qid).encode()])
            labels[rng.permutation(candidates)[: settings.unjudged_per_topic]] = 0.0
    return labels


def fit_linear(
    regression: LinearRegression | Ridge,
    feature_names: Sequence[str],
    features: np.ndarray,
    labels: np.ndarray,
) -> LinearModel:
    """Fit the labels (N,) by a linear regression over normalised features (N, F)."""
    fitted = regression.fit(features, labels)
    weights = dict(zip(feature_names, fitted.coef_.tolist(), strict=True))
    return LinearModel(float(fitted.intercept_), weights)


def fit_ridge(examples: TrainingSet, alpha: float) -> LinearModel:
    """Fit ridge regression of the labels with the penalty `alpha` (Hoerl and Kennard 1970)."""
    regression = Ridge(alpha, solver="cholesky")
    return fit_linear(regression, examples.feature_names, examples.features, examples.labels)


def fit_ranknet(examples: TrainingSet, settings: RankNetSettings, seed: int) -> OtherModel:
    """Fit RankNet, a small network trained on pairwise preferences (Burges et al. 2005); raise
    TrainingError if no topic has two documents with different labels.

    For scores s, P(i before j) = 1 / (1 + exp(s_j - s_i)) (eq. 3). The loss is the mean negative
    log-likelihood over all pairs of a topic with label_i > label_j.
    """
    is_better = examples.labels[:, None] > examples.labels
    is_same_topic = examples.topics[:, None] == examples.topics
    # (pairs,) each
    better_rows, worse_rows = map(torch.from_numpy, np.nonzero(is_better & is_same_topic))
    if not len(better_rows):
        cause = "no topic has two documents with different labels"
        raise TrainingError(f"{cause}; check qrels and input")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # a bias cancels in score differences; without hidden units, a weighted sum
        size = settings.hidden_units or examples.features.shape[1]
        layers: list[nn.Module] = [nn.Linear(size, 1, bias=False)]
        if settings.hidden_units:
            layers = [nn.Linear(examples.features.shape[1], size), nn.Tanh(), *layers]
        network = nn.Sequential(*layers).double()
    features = torch.from_numpy(examples.features)
    optimiser = torch.optim.Adam(
        network.parameters(), settings.learning_rate, weight_decay=settings.weight_decay
    )
    for _ in range(settings.steps):
        optimiser.zero_grad()
        scores = network(features).squeeze(1)
        loss = -functional.logsigmoid(scores[better_rows] - scores[worse_rows]).mean()
        loss.backward()  # type: ignore[no-untyped-call]  # torch: untyped
        optimiser.step()
    network.requires_grad_(False)
    return OtherModel(lambda rows: np.asarray(network(torch.from_numpy(rows)).squeeze(1)))


def fit_lambdamart(examples: TrainingSet, settings: LambdaMARTSettings, seed: int) -> OtherModel:
    """Fit LambdaMART, boosted trees (Burges 2010); the gain of label l is 2^l - 1."""
    import lightgbm  # imported on use, as it requires libgomp

    order = np.argsort(examples.topics, kind="stable")  # LightGBM requires rows grouped by topic
    _, sizes = np.unique(examples.topics, return_counts=True)
    # LightGBM requires integer labels
    values, grades = np.unique(examples.labels, return_inverse=True)
    parameters = {
        "objective": "lambdarank",
        "label_gain": (np.exp2(values) - 1).tolist(),
        "num_leaves": settings.leaves,
        "min_data_in_leaf": settings.min_leaf_documents,
        "learning_rate": settings.learning_rate,
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
    }
    documents = lightgbm.Dataset(examples.features[order], grades[order], group=sizes)
    booster = lightgbm.train(parameters, documents, settings.trees)
    return OtherModel(lambda rows: np.asarray(booster.predict(rows, num_threads=1)))
