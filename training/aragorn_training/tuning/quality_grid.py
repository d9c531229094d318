"""Re-rank by a weighted sum of relevance and quality; select depth and weight on
Webis-ArgQuality-20.

All texts of Webis-ArgQuality-20 are judged for relevance and quality. Depth and weight are selected
by cross-validation.
"""

import itertools

import numpy as np
import pandas as pd

from aragorn import __version__
from aragorn.fusion.quality import QualityInterpolation
from aragorn_training.data.datasets.webis_argquality import MODELS
from aragorn_training.evaluation.folds import split_folds
from aragorn_training.fitting.listwise import compute_dense_ranks

DEPTHS = (10, 20, 30, 50)  # re-ranking depths
# weights of quality; the weight of relevance is 1
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
POINTS = tuple(
    QualityInterpolation(__version__, depth, weight)
    for depth, weight in itertools.product(DEPTHS, WEIGHTS)
)
RELEVANCE_ONLY = WEIGHTS.index(0.0)  # index of the first point with weight 0
QUALITY_ONLY = len(POINTS)  # index of the ranking by quality only, after all points
GAIN_COLUMNS = ("relevance", "score")  # judged relevance, combined quality
MEASURES = ("nDCG@5 relevance", "nDCG@10 relevance", "nDCG@5 quality", "nDCG@10 quality")
CONSTRAINT = MEASURES.index("nDCG@5 relevance")
OBJECTIVE = MEASURES.index("nDCG@5 quality")
MAX_RELEVANCE_LOSS = 0.01  # maximum loss in relevance on the topics used for selection
N_FOLDS = 5


def evaluate_grid(judgments: pd.DataFrame, quality: np.ndarray) -> np.ndarray:
    """Evaluate all grid points and the ranking by quality only; return values (topics, points + 1,
    MEASURES).

    Topics are sorted by id; values are means over the retrieval models' rankings. A text's gain is
    the number of distinct lower grades in its topic (0 for non-arguments); the ideal ranking is the
    best order of the same texts. The relevance score is -log(rank), as the rankings have no scores.

    Args:
        judgments: Webis-ArgQuality-20, see `webis_argquality.read_judgments`.
        quality: Quality scores (texts,) of the rows of `judgments`; higher is better.
    """
    texts = judgments.assign(quality=quality)
    for name in GAIN_COLUMNS:
        texts[name] = texts.groupby("qid")[name].transform(
            lambda grades: compute_dense_ranks(grades.to_numpy()) - 1.0
        )
    groups = [group for _, group in texts.groupby("qid")]
    return np.stack(
        [np.mean([_evaluate_ranking(group, model) for model in MODELS], axis=0) for group in groups]
    )


def _evaluate_ranking(texts: pd.DataFrame, model: str) -> np.ndarray:
    """Evaluate all grid points on one retrieval model's ranking; return values (points + 1,
    MEASURES)."""
    ranking = texts[texts[model].notna()].sort_values(model)
    relevance = -np.log(ranking[model].to_numpy())
    quality = ranking["quality"].to_numpy()
    scores = [*(point.score(relevance, quality[: point.depth]) for point in POINTS), quality]
    orders = np.argsort(-np.stack(scores), axis=1, kind="stable")
    return np.stack(
        [
            _ndcg(ranking[gain].to_numpy()[orders], depth)
            for gain in GAIN_COLUMNS
            for depth in (5, 10)
        ],
        axis=1,
    )


def _ndcg(gains: np.ndarray, depth: int) -> np.ndarray:
    """Return the nDCG (rankings,) of rankings of the same texts from the gains in rank order
    (rankings, texts)."""
    discounts = 1 / np.log2(np.arange(2, depth + 2))
    dcg, ideal = (
        ordered_gains[:, :depth] @ discounts[: gains.shape[1]]
        for ordered_gains in (gains, -np.sort(-gains, axis=1))
    )
    return np.asarray(dcg / ideal)


def select_point(quality: np.ndarray, *relevance: np.ndarray) -> int:
    """Return the index of the point with the highest quality whose losses in relevance are at most
    MAX_RELEVANCE_LOSS.

    Args:
        quality: Mean quality (points,).
        relevance: Mean relevance (points,) per collection; losses are relative to the point
            RELEVANCE_ONLY.
    """
    is_feasible = np.all(
        [means >= means[RELEVANCE_ONLY] - MAX_RELEVANCE_LOSS for means in relevance], axis=0
    )
    return int(np.argmax(np.where(is_feasible, quality, -np.inf)))


def cross_validate(grid_values: np.ndarray) -> np.ndarray:
    """Return, of the result of `evaluate_grid`, each topic's values (topics, MEASURES) at the point
    selected on other folds."""
    held_out_values = np.empty_like(grid_values[:, 0])
    topic_names = [str(topic) for topic in range(len(grid_values))]
    for fold in split_folds(topic_names, N_FOLDS, 0, 0):
        is_test = np.isin(topic_names, list(fold.test))
        means = grid_values[~is_test, :QUALITY_ONLY].mean(axis=0)
        held_out_values[is_test] = grid_values[
            is_test, select_point(means[:, OBJECTIVE], means[:, CONSTRAINT])
        ]
    return held_out_values
