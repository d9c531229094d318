"""Results published by Favreau et al. (2022, table 5): bert-base-uncased, macro means over test topics.

Only correlations are comparable: Favreau et al. do not state their nDCG gains; on UKP they appear to be the published PageRank
scores, whose largest values belong to the worst arguments. Their test topics are unknown; ours are all topics, each tested in
its fold.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """Published correlations."""

    pearson: float
    spearman: float
    kendall: float


PAPER: dict[str, dict[str, Published]] = {
    "ukp": {
        "BERT, pointwise": Published(0.44, 0.56, 0.40),
        "mse": Published(0.45, 0.68, 0.51),
        "hinge": Published(0.44, 0.60, 0.46),
        "logistic": Published(0.38, 0.59, 0.45),
        "softmax": Published(0.40, 0.67, 0.51),
        "list_mle": Published(0.36, 0.61, 0.45),
        "approx_ndcg": Published(0.47, 0.59, 0.44),
        "ensemble": Published(0.48, 0.68, 0.51),
        "Potash et al. 2019": Published(0.48, 0.69, 0.52),
    },
    "ibm": {
        "BERT, pointwise": Published(0.42, 0.41, 0.22),
        "mse": Published(0.30, 0.29, 0.20),
        "hinge": Published(0.31, 0.31, 0.21),
        "logistic": Published(0.33, 0.34, 0.24),
        "softmax": Published(0.34, 0.33, 0.23),
        "list_mle": Published(0.32, 0.31, 0.21),
        "approx_ndcg": Published(0.29, 0.32, 0.22),
        "ensemble": Published(0.35, 0.34, 0.23),
    },
}
