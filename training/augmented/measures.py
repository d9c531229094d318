"""Times 100: Spearman's correlation of degrees; F1 of the positive class, with the threshold that is best on dev."""

from __future__ import annotations

import numpy as np
from scipy.stats import spearmanr
from sentence_transformers.sentence_transformer.evaluation import BinaryClassificationEvaluator
from sklearn.metrics import f1_score

from submission.errors import TrainingError
from training.augmented.gold import Gold

DEGREES, CLASSES = "Spearman", "F1"


def on_dev(gold: Gold, scores: np.ndarray) -> float:
    """The measure of scores (dev pairs,). Raises TrainingError: all are the same, or no numbers."""
    if not np.ptp(scores) > 0:
        raise TrainingError(f"{gold.name}: all pairs of dev get the score {scores[0]}; lower the learning rate")
    labels = gold.dev["label"].to_numpy()
    return _best_f1(labels, scores)[0] if gold.classes else _spearman(labels, scores)


def on_both(gold: Gold, dev: np.ndarray, test: np.ndarray) -> tuple[float, float]:
    """The measures of scores (dev pairs,) and (test pairs,). Raises TrainingError: all of dev are the same, or no numbers."""
    found, labels = on_dev(gold, dev), gold.test["label"].to_numpy()
    if not gold.classes:
        return found, _spearman(labels, test)
    threshold = _best_f1(gold.dev["label"].to_numpy(), dev)[1]
    return found, 100 * float(f1_score(labels == 1, test >= threshold))


def baseline(gold: Gold) -> tuple[float, float]:
    """Dev and test, as in the paper: of degrees the word overlap (Jaccard), of classes everything positive."""
    if gold.classes:
        return tuple(100 * float(f1_score(part["label"] == 1, part["label"] >= 0)) for part in (gold.dev, gold.test))  # type: ignore[return-value]  # two
    overlaps = [
        np.array([_jaccard(*pair) for pair in zip(p["first"], p["second"], strict=True)]) for p in (gold.dev, gold.test)
    ]
    return on_both(gold, *overlaps)


def _spearman(labels: np.ndarray, scores: np.ndarray) -> float:
    return 100 * float(spearmanr(labels, scores).statistic)


def _best_f1(labels: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """F1 times 100 and the threshold that gives it."""
    found, _, _, threshold = BinaryClassificationEvaluator.find_best_f1_and_threshold(scores, labels, True)
    return 100 * float(found), float(threshold)


def _jaccard(first: str, second: str) -> float:
    one, other = (set(text.lower().split()) for text in (first, second))
    return len(one & other) / len(one | other)
