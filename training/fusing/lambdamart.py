"""LambdaMART: regression trees that are added up, each grown where a topic's nDCG gains most (Burges 2010), by LightGBM."""

from __future__ import annotations

from dataclasses import dataclass

import lightgbm
import numpy as np

from training.fusing.fitting import Labelled
from training.fusing.recipe import LambdaMART


@dataclass(frozen=True)
class Trees:
    """Fitted trees."""

    booster: lightgbm.Booster

    def scores(self, features: np.ndarray) -> np.ndarray:
        """The scores (N,) of standardised features (N, F)."""
        return np.asarray(self.booster.predict(features, num_threads=1))


def lambdamart(labelled: Labelled, settings: LambdaMART, seed: int) -> Trees:
    """The trees that order the documents of each topic by their labels; a label's gain is 2 to its power, less 1."""
    order = np.argsort(labelled.topics, kind="stable")  # the documents of a topic have to stand together
    _, sizes = np.unique(labelled.topics, return_counts=True)
    values, grades = np.unique(labelled.labels, return_inverse=True)  # LightGBM's labels are whole numbers, mixed ones are not
    parameters = {
        "objective": "lambdarank",
        "label_gain": (np.exp2(values) - 1).tolist(),
        "num_leaves": settings.leaves,
        "min_data_in_leaf": settings.least,
        "learning_rate": settings.learning_rate,
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
    }
    documents = lightgbm.Dataset(labelled.features[order], grades[order], group=sizes)
    return Trees(lightgbm.train(parameters, documents, settings.trees))
