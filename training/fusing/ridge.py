"""Ridge regression: the weighted sum of features that comes nearest to the labels. What a fusion's checkpoint holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import Ridge

from training.fusing.fitting import Labelled


@dataclass(frozen=True)
class Weights:
    """Fitted weights."""

    intercept: float
    of: dict[str, float]  # the features, by their names

    def scores(self, features: np.ndarray) -> np.ndarray:
        """The scores (N,) of standardised features (N, F)."""
        # No matrix product, which may round a row differently from its equal.
        return np.asarray(self.intercept + (features * np.array(list(self.of.values()))).sum(axis=1))


def ridge(labelled: Labelled, alpha: float) -> Weights:
    """The weights with the least sum of squared errors and of their own squares times alpha (Hoerl and Kennard 1970)."""
    found = Ridge(alpha, solver="cholesky").fit(labelled.features, labelled.labels)
    return Weights(float(found.intercept_), dict(zip(labelled.names, found.coef_.tolist(), strict=True)))
