"""Compute percentages: Spearman's correlation for graded labels, F1 for binary ones."""

import numpy as np
from scipy.stats import spearmanr
from sentence_transformers.sentence_transformer.evaluation import BinaryClassificationEvaluator
from sklearn.metrics import f1_score, roc_auc_score

from aragorn.errors import TrainingError
from aragorn_training.data.datasets.sentence_pairs import PairDataset

SPEARMAN = "Spearman"
F1 = "F1"
MAX_FALSE_POSITIVE_RATE = 0.05


def compute_dev_metric(gold: PairDataset, scores: np.ndarray) -> float:
    """Compute the metric of scores (dev pairs,); raise TrainingError if all scores are equal."""
    if not np.ptp(scores) > 0:
        raise TrainingError(
            f"{gold.name}: all dev pairs have the score {scores[0]}; lower the learning rate"
        )
    labels = gold.dev["label"].to_numpy()
    return _find_best_f1(labels, scores)[0] if gold.is_binary else _spearman(labels, scores)


def compute_metrics(
    gold: PairDataset, dev_scores: np.ndarray, test_scores: np.ndarray
) -> tuple[float, float]:
    """Return the dev and test metric: F1 at the threshold best on dev, or Spearman's rho."""
    dev_score = compute_dev_metric(gold, dev_scores)
    labels = gold.test["label"].to_numpy()
    if not gold.is_binary:
        return dev_score, _spearman(labels, test_scores)
    threshold = _find_best_f1(gold.dev["label"].to_numpy(), dev_scores)[1]
    return dev_score, 100 * float(f1_score(labels == 1, test_scores >= threshold))


def compute_partial_auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Compute AUC(0.05) of scores (pairs,) for binary labels (pairs,), standardised by McClish
    (1989): 1 is perfect, .5 random.

    The area under the curve of true over false positive rates up to MAX_FALSE_POSITIVE_RATE. Table
    6 of Thakur et al. (2021) has .495 for encoders that do not separate the pairs, which is random
    in this standardisation; the networks of Shah et al. (2018) in the same table have .05, near the
    .025 that a random order has if the area is divided by its largest value.
    """
    return float(roc_auc_score(labels, scores, max_fpr=MAX_FALSE_POSITIVE_RATE))


def compute_baseline_metrics(gold: PairDataset) -> tuple[float, float]:
    """Compute both metrics of the baseline (Thakur et al. 2021): word overlap; all positive."""
    splits = (gold.dev, gold.test)
    if gold.is_binary:
        dev, test = (
            100 * float(f1_score(split["label"] == 1, split["label"] >= 0)) for split in splits
        )
        return dev, test
    overlaps = (
        np.array([*map(_compute_overlap, split["first"], split["second"])]) for split in splits
    )
    return compute_metrics(gold, *overlaps)


def _spearman(labels: np.ndarray, scores: np.ndarray) -> float:
    return 100 * float(spearmanr(labels, scores).statistic)


def _find_best_f1(labels: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """Return the best F1 (percent) and its threshold."""
    f1, _, _, threshold = BinaryClassificationEvaluator.find_best_f1_and_threshold(
        scores, labels, True
    )
    return 100 * float(f1), float(threshold)


def _compute_overlap(first: str, second: str) -> float:
    first_words, second_words = (set(text.lower().split()) for text in (first, second))
    return len(first_words & second_words) / len(first_words | second_words)
