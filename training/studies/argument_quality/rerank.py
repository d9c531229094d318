"""Re-order by quality lists that were ranked by relevance; Webis-ArgQuality-20 judges all their texts for both.

How many documents are re-ordered and how much quality weighs is chosen on some topics and measured on the others.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from submission import __version__
from submission.fusion.reordering import Reordering
from training.quality.listwise import dense_ranks
from training.quality.webis import MODELS
from training.studies.argument_quality.folds import folds

DEPTHS = (10, 20, 30, 50)  # documents from the top that are re-ordered
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # of quality beside relevance
POINTS = tuple(Reordering(__version__, depth, weight) for depth, weight in itertools.product(DEPTHS, WEIGHTS))
GIVEN, ALONE = WEIGHTS.index(0.0), len(POINTS)  # leaves lists as they are; one more: quality alone
GAINS = ("relevance", "score")  # columns of judgments: relevance, combined quality
MEASURES = ("nDCG@5 relevance", "nDCG@10 relevance", "nDCG@5 quality", "nDCG@10 quality")
HELD, RAISED = MEASURES.index("nDCG@5 relevance"), MEASURES.index("nDCG@5 quality")
LOSS = 0.01  # of relevance that a point may cost where it is chosen
FOLDS = 5


def values(judged: pd.DataFrame, quality: np.ndarray) -> np.ndarray:
    """The measures (topics, points + 1, MEASURES) at each point, and at ALONE of the lists ordered by quality alone.

    Args:
        judged: Webis-ArgQuality-20, see `webis.read`.
        quality: (texts,), larger is better.

    Topics are in the order of their ids; a value is the mean over the models' lists. The gain of a text is the number of
    levels below its own in its topic: 0 of what is no argument. The ideal is the best order of the list. A relevance is minus
    the logarithm of the rank, as the lists have no scores.
    """
    texts = judged.assign(quality=quality)
    for name in GAINS:
        texts[name] = texts.groupby("qid")[name].transform(lambda own: dense_ranks(own.to_numpy()) - 1.0)
    return np.stack([np.mean([_of_list(own, model) for model in MODELS], axis=0) for _, own in texts.groupby("qid")])


def _of_list(texts: pd.DataFrame, model: str) -> np.ndarray:
    """The measures (points + 1, MEASURES) of what a model listed of a topic's texts."""
    own = texts[texts[model].notna()].sort_values(model)
    relevance, quality = -np.log(own[model].to_numpy()), own["quality"].to_numpy()
    scores = [*(point.scores(relevance, quality[: point.documents]) for point in POINTS), quality]
    orders = np.argsort(-np.stack(scores), axis=1, kind="stable")
    return np.stack([_ndcg(own[gain].to_numpy()[orders], depth) for gain in GAINS for depth in (5, 10)], axis=1)


def _ndcg(gains: np.ndarray, depth: int) -> np.ndarray:
    """The nDCG (orders,) of the orders of a list, by the gains (orders, documents) of what comes first, second, and so on."""
    discounts = 1 / np.log2(np.arange(2, depth + 2))
    found, best = (which[:, :depth] @ discounts[: gains.shape[1]] for which in (gains, -np.sort(-gains, axis=1)))
    ndcg: np.ndarray = found / best
    return ndcg


def chosen(quality: np.ndarray, *relevance: np.ndarray) -> int:
    """The point with the best mean quality (points,) among those that cost at most LOSS of any mean relevance (points,)."""
    allowed = np.all([means >= means[GIVEN] - LOSS for means in relevance], axis=0)
    return int(np.argmax(np.where(allowed, quality, -np.inf)))


def cross_validated(found: np.ndarray) -> np.ndarray:
    """The measures (topics, MEASURES) of each topic at the point that is chosen on the topics of the other folds."""
    measured = np.empty_like(found[:, 0])
    numbers = [str(topic) for topic in range(len(found))]
    for fold in folds(numbers, FOLDS, 0, 0):
        test = np.isin(numbers, list(fold.test))
        means = found[~test, :ALONE].mean(axis=0)
        measured[test] = found[test, chosen(means[:, RAISED], means[:, HELD])]
    return measured
