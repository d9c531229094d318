"""Compute Spearman's correlation or F1 (percent); F1's threshold is tuned on dev."""

from __future__ import annotations

import numpy as np
from scipy.stats import spearmanr
from sentence_transformers.sentence_transformer.evaluation import BinaryClassificationEvaluator
from sklearn.metrics import f1_score

from submission.errors import TrainingError
from training.data.datasets.sentence_pairs import PairDataset

SPEARMAN, F1 = "Spearman", "F1"


def dev_metric(gold: PairDataset, scores: np.ndarray) -> float:
    """Compute the dev metric of scores (dev pairs,)."""
    if not np.ptp(scores) > 0:
        raise TrainingError(f"{gold.name}: all dev pairs have the score {scores[0]}; lower the learning rate")
    labels = gold.dev["label"].to_numpy()
    return _best_f1(labels, scores)[0] if gold.is_binary else _spearman(labels, scores)


def dev_and_test_metrics(gold: PairDataset, dev: np.ndarray, test: np.ndarray) -> tuple[float, float]:
    """Compute the dev and test metrics of scores (dev pairs,) and (test pairs,)."""
    dev_score, labels = dev_metric(gold, dev), gold.test["label"].to_numpy()
    if not gold.is_binary:
        return dev_score, _spearman(labels, test)
    threshold = _best_f1(gold.dev["label"].to_numpy(), dev)[1]
    return dev_score, 100 * float(f1_score(labels == 1, test >= threshold))


def baseline_metrics(gold: PairDataset) -> tuple[float, float]:
    """Compute the baseline of Thakur et al. (2021) on dev and test: Jaccard word overlap if graded, all positive if binary."""
    splits = (gold.dev, gold.test)
    if gold.is_binary:
        dev, test = (100 * float(f1_score(split["label"] == 1, split["label"] >= 0)) for split in splits)
        return dev, test
    overlaps = [
        np.array([_word_overlap(*pair) for pair in zip(split["first"], split["second"], strict=True)]) for split in splits
    ]
    return dev_and_test_metrics(gold, *overlaps)


def _spearman(labels: np.ndarray, scores: np.ndarray) -> float:
    return 100 * float(spearmanr(labels, scores).statistic)


def _best_f1(labels: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """Return the best F1 (percent) and its threshold."""
    f1, _, _, threshold = BinaryClassificationEvaluator.find_best_f1_and_threshold(scores, labels, True)
    return 100 * float(f1), float(threshold)


def _word_overlap(first: str, second: str) -> float:
    first_words, second_words = (set(text.lower().split()) for text in (first, second))
    return len(first_words & second_words) / len(first_words | second_words)
