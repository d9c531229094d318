"""Results published by Favreau et al. (2022, table 5): bert-base-uncased, macro means over test topics.

Only correlations are comparable: Favreau et al. do not state their nDCG gains; on UKP they appear to be the published PageRank
scores, whose largest values belong to the worst arguments. Their test topics are unknown; ours are all topics, each tested in
its fold.
"""

from __future__ import annotations

from typing import NamedTuple


class Correlations(NamedTuple):
    """Published correlations."""

    pearson: float
    spearman: float
    kendall: float


PUBLISHED: dict[str, dict[str, Correlations]] = {
    "ukp": {
        "BERT, pointwise": Correlations(0.44, 0.56, 0.40),
        "mse": Correlations(0.45, 0.68, 0.51),
        "hinge": Correlations(0.44, 0.60, 0.46),
        "logistic": Correlations(0.38, 0.59, 0.45),
        "softmax": Correlations(0.40, 0.67, 0.51),
        "list_mle": Correlations(0.36, 0.61, 0.45),
        "approx_ndcg": Correlations(0.47, 0.59, 0.44),
        "ensemble": Correlations(0.48, 0.68, 0.51),
        "Potash et al. 2019": Correlations(0.48, 0.69, 0.52),
    },
    "ibm": {
        "BERT, pointwise": Correlations(0.42, 0.41, 0.22),
        "mse": Correlations(0.30, 0.29, 0.20),
        "hinge": Correlations(0.31, 0.31, 0.21),
        "logistic": Correlations(0.33, 0.34, 0.24),
        "softmax": Correlations(0.34, 0.33, 0.23),
        "list_mle": Correlations(0.32, 0.31, 0.21),
        "approx_ndcg": Correlations(0.29, 0.32, 0.22),
        "ensemble": Correlations(0.35, 0.34, 0.23),
    },
}
