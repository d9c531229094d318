"""Fit the learners of a fusion: ridge regression, RankNet and LambdaMART."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.linear_model import LinearRegression, Ridge
from torch import nn
from torch.nn import functional

from aragorn.errors import TrainingError
from aragorn_training.fusion.labels import TrainingSet
from aragorn_training.fusion.recipe import LambdaMARTSettings, RankNetSettings

if TYPE_CHECKING:
    import lightgbm


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


@dataclass(frozen=True)
class RankNetModel:
    """A fitted RankNet, whose network maps features (N, F) to scores (N, 1)."""

    network: nn.Module

    @torch.inference_mode()
    def score(self, features: np.ndarray) -> np.ndarray:
        """Return the scores (N,) of standardised features (N, F)."""
        return np.asarray(self.network(torch.from_numpy(features)).squeeze(1))


@dataclass(frozen=True)
class LambdaMARTModel:
    """A fitted LambdaMART model, a LightGBM ensemble of regression trees."""

    booster: lightgbm.Booster

    def score(self, features: np.ndarray) -> np.ndarray:
        """Return the scores (N,) of standardised features (N, F)."""
        return np.asarray(self.booster.predict(features, num_threads=1))


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


def fit_ranknet(examples: TrainingSet, settings: RankNetSettings, seed: int) -> RankNetModel:
    """Fit RankNet, a small network trained on pairwise preferences (Burges et al. 2005).

    For scores s, P(i before j) = 1 / (1 + exp(s_j - s_i)) (eq. 3). The loss is the mean negative
    log-likelihood over all pairs of a topic with label_i > label_j.

    Raises:
        TrainingError: If no topic has two documents with different labels.
    """
    is_better = examples.labels[:, None] > examples.labels
    is_same_topic = examples.topics[:, None] == examples.topics
    # (pairs,) each
    better_rows, worse_rows = map(torch.from_numpy, np.nonzero(is_better & is_same_topic))
    if not len(better_rows):
        raise TrainingError(
            "no topic has two documents with different labels; check qrels and input"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _build_network(examples.features.shape[1], settings.hidden_units)
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
    return RankNetModel(network)


def _build_network(feature_count: int, hidden_units: int) -> nn.Module:
    """Build RankNet's network in double precision; if `hidden_units` is 0, it is a weighted sum of
    the features."""
    # a bias cancels in score differences
    output_layer = nn.Linear(hidden_units or feature_count, 1, bias=False)
    if not hidden_units:
        return output_layer.double()
    return nn.Sequential(nn.Linear(feature_count, hidden_units), nn.Tanh(), output_layer).double()


def fit_lambdamart(
    examples: TrainingSet, settings: LambdaMARTSettings, seed: int
) -> LambdaMARTModel:
    """Fit LambdaMART, gradient-boosted trees that optimise nDCG (Burges 2010); the gain of label l
    is 2^l - 1."""
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
    return LambdaMARTModel(lightgbm.train(parameters, documents, settings.trees))
