"""Compute metrics in percent: for graded labels Spearman's correlation, for binary labels F1 at a threshold tuned on dev."""

from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr
from sentence_transformers.sentence_transformer.evaluation import BinaryClassificationEvaluator
from sklearn.metrics import f1_score

from submission.errors import TrainingError
from training.data.datasets.sentence_pairs import PairDataset


class PublishedResult(NamedTuple):
    """Result of a network in Thakur et al. (2021), in percent: means and standard deviations over seeds."""

    test: float
    test_sd: float | None
    dev: float
    dev_sd: float | None
    silver_pairs: int = 0


PUBLISHED: dict[str, dict[str, PublishedResult]] = {
    "bws_cross": {
        "baseline": PublishedResult(5.53, None, 6.31, None),
        "cross_encoder": PublishedResult(65.78, 0.78, 62.17, 0.83),
        "bi_encoder": PublishedResult(60.54, 0.99, 54.90, 0.88),
        "random": PublishedResult(59.95, 0.70, 57.36, 0.80, 723_540),
        "kde": PublishedResult(61.49, 0.71, 57.71, 0.85, 559_630),
        "bm25": PublishedResult(61.48, 0.73, 57.95, 0.98, 11_694),
        "semantic": PublishedResult(61.05, 1.02, 56.84, 1.22, 18_824),
        "bm25_semantic": PublishedResult(59.41, 0.98, 57.83, 0.69, 28_771),
    },
    "bws_in": {
        "baseline": PublishedResult(6.98, None, 5.06, None),
        "cross_encoder": PublishedResult(66.54, 0.94, 66.23, 0.96),
        "bi_encoder": PublishedResult(63.77, 2.29, 62.75, 1.16),
        "random": PublishedResult(64.54, 1.90, 67.83, 0.43, 565_820),
        "kde": PublishedResult(69.76, 0.50, 66.14, 0.72, 394_252),
        "bm25": PublishedResult(68.63, 0.79, 65.37, 1.18, 9_236),
        "semantic": PublishedResult(68.06, 0.93, 66.21, 0.92, 11_816),
        "bm25_semantic": PublishedResult(63.30, 1.34, 68.45, 0.57, 19_830),
    },
    "mrpc": {
        "baseline": PublishedResult(80.80, None, 80.75, None),
        "cross_encoder": PublishedResult(89.00, 0.56, 89.75, 0.46),
        "bi_encoder": PublishedResult(84.39, 0.51, 87.37, 0.52),
        "random": PublishedResult(82.28, 0.38, 84.12, 0.64, 1_000_000),
        "kde": PublishedResult(84.33, 0.27, 87.04, 0.29, 32_353),
        "bm25": PublishedResult(85.46, 0.52, 88.04, 0.51, 10_637),
        "semantic": PublishedResult(82.42, 0.32, 83.52, 0.27, 18_292),
        "bm25_semantic": PublishedResult(82.68, 0.33, 85.26, 0.56, 25_867),
    },
}


SPEARMAN, F1 = "Spearman", "F1"


def compute_dev_metric(gold: PairDataset, scores: np.ndarray) -> float:
    """Compute the metric of scores (dev pairs,); raise TrainingError if all scores are equal."""
    if not np.ptp(scores) > 0:
        raise TrainingError(f"{gold.name}: all dev pairs have the score {scores[0]}; lower the learning rate")
    labels = gold.dev["label"].to_numpy()
    return _find_best_f1(labels, scores)[0] if gold.is_binary else _spearman(labels, scores)


def compute_metrics(gold: PairDataset, dev_scores: np.ndarray, test_scores: np.ndarray) -> tuple[float, float]:
    """Return the dev and test metric: F1 at the threshold that is best on dev for binary labels, else Spearman's rho."""
    dev_score, labels = compute_dev_metric(gold, dev_scores), gold.test["label"].to_numpy()
    if not gold.is_binary:
        return dev_score, _spearman(labels, test_scores)
    threshold = _find_best_f1(gold.dev["label"].to_numpy(), dev_scores)[1]
    return dev_score, 100 * float(f1_score(labels == 1, test_scores >= threshold))


def compute_baseline_metrics(gold: PairDataset) -> tuple[float, float]:
    """Compute dev and test metrics of the baseline of Thakur et al. (2021): word overlap; for binary labels: all positive."""
    splits = (gold.dev, gold.test)
    if gold.is_binary:
        dev, test = (100 * float(f1_score(split["label"] == 1, split["label"] >= 0)) for split in splits)
        return dev, test
    overlaps = [
        np.array([_compute_overlap(*pair) for pair in zip(split["first"], split["second"], strict=True)]) for split in splits
    ]
    return compute_metrics(gold, *overlaps)


def _spearman(labels: np.ndarray, scores: np.ndarray) -> float:
    return 100 * float(spearmanr(labels, scores).statistic)


def _find_best_f1(labels: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """Return the best F1 (percent) and its threshold."""
    f1, _, _, threshold = BinaryClassificationEvaluator.find_best_f1_and_threshold(scores, labels, True)
    return 100 * float(f1), float(threshold)


def _compute_overlap(first: str, second: str) -> float:
    first_words, second_words = (set(text.lower().split()) for text in (first, second))
    return len(first_words & second_words) / len(first_words | second_words)
