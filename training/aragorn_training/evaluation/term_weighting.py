"""Measure the quality of predicted term weights and token tags."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from seqeval.metrics import accuracy_score
from seqeval.metrics.sequence_labeling import precision_recall_fscore_support

from aragorn.errors import InputError
from aragorn.text.surface_tokens import normalise_token

TokenSequences = Sequence[Sequence[str]]  # one sequence of words or tags per text


def compute_component_metrics(
    gold_tags: TokenSequences, predicted_tags: TokenSequences
) -> dict[str, float]:
    """Return precision, recall and F1 of components, and token accuracy, in percent, by name."""
    gold_tags = [list(tags) for tags in gold_tags]
    predicted_tags = [list(tags) for tags in predicted_tags]
    *values, _ = precision_recall_fscore_support(
        gold_tags, predicted_tags, average="micro", zero_division=0
    )
    values.append(accuracy_score(gold_tags, predicted_tags))
    names = ("precision", "recall", "F1", "accuracy")
    return {name: round(100 * float(value), 2) for name, value in zip(names, values, strict=True)}


class MajorityTagger:
    """Baseline that predicts a word's most frequent tag, or that of all words if unseen."""

    def __init__(self, words: TokenSequences, tags: TokenSequences) -> None:
        """Count the tags of each normalised word; the first tag wins a tie."""
        counts: dict[str, Counter[str]] = {}
        for sequence, sequence_tags in zip(words, tags, strict=True):
            for word, tag in zip(sequence, sequence_tags, strict=True):
                counts.setdefault(normalise_token(word), Counter())[tag] += 1
        self._tags = {word: count.most_common(1)[0][0] for word, count in counts.items()}
        self.most_frequent = sum(counts.values(), Counter[str]()).most_common(1)[0][0]

    def predict(self, words: TokenSequences) -> list[list[str]]:
        """Predict the tags of word sequences."""
        return [
            [self._tags.get(normalise_token(word), self.most_frequent) for word in sequence]
            for sequence in words
        ]


@dataclass(frozen=True)
class LabelledWords:
    """Words of a passage in order of occurrence, with labels (W,): 1 if relevant, else 0."""

    words: list[str]
    labels: np.ndarray

    def list_relevant(self) -> list[str]:
        """Return the relevant words, in order of occurrence."""
        return [word for word, label in zip(self.words, self.labels, strict=True) if label]


def compute_term_weighting_metrics(
    passages: Sequence[LabelledWords], weights: Sequence[np.ndarray]
) -> dict[str, float]:
    """Return, in percent, R² over all words, and MAP and R-precision over the passages with a
    relevant word; raise InputError if all words have the same label.

    A passage's distinct words are ranked by their largest predicted weight; ties keep the order of
    occurrence.
    """
    labels = np.concatenate([passage.labels for passage in passages])
    predicted_weights = np.concatenate(weights)
    if np.ptp(labels) == 0:
        raise InputError(
            f"all words of the {len(passages)} validation passages have the same label; use a "
            "larger corpus"
        )
    precisions = [
        _compute_precision_metrics(passage, values)
        for passage, values in zip(passages, weights, strict=True)
        if passage.labels.any()
    ]
    average_precision, r_precision = np.mean(precisions, axis=0)
    errors = np.square(predicted_weights - labels).sum()
    r_squared = 1 - errors / np.square(labels - labels.mean()).sum()
    metrics = {"R²": r_squared, "MAP": average_precision, "Rprec": r_precision}
    return {name: round(100 * float(value), 2) for name, value in metrics.items()}


def _compute_precision_metrics(passage: LabelledWords, weights: np.ndarray) -> tuple[float, float]:
    """Return average precision and R-precision of a passage's words, ranked by weight."""
    max_weights: dict[str, float] = {}
    for word, weight in zip(passage.words, weights.tolist(), strict=True):
        max_weights[word] = max(weight, max_weights.get(word, -np.inf))
    relevant_words = {*passage.list_relevant()}
    ranking = sorted(max_weights, key=lambda word: -max_weights[word])
    hits = np.array([word in relevant_words for word in ranking])
    precision = hits.cumsum() / np.arange(1, len(hits) + 1)
    return float(precision[hits].mean()), float(hits[: len(relevant_words)].mean())


class TermWeightBaselines:
    """Baselines of training passages: a constant weight, and a linear regression on IDF."""

    def __init__(self) -> None:
        self._passages = 0
        self._document_frequencies: Counter[str] = Counter()
        self._occurrences: Counter[str] = Counter()
        self._relevant: Counter[str] = Counter()  # occurrences labelled relevant

    def add(self, passage: LabelledWords) -> None:
        """Count a passage's words, how many passages have them, and how often they are relevant."""
        self._passages += 1
        self._document_frequencies.update({*passage.words})
        self._occurrences.update(passage.words)
        self._relevant.update(passage.list_relevant())

    def predict_constant(self, passages: Sequence[LabelledWords]) -> list[np.ndarray]:
        """Predict the mean label of all training words: the best constant by squared error."""
        relevant_fraction = self._relevant.total() / max(1, self._occurrences.total())
        return [np.full(len(passage.words), relevant_fraction) for passage in passages]

    def predict_from_idf(self, passages: Sequence[LabelledWords]) -> list[np.ndarray]:
        """Predict labels by regression on IDF, ln((N + 1) / (df + 1)) for df of N passages."""
        vocabulary = list(self._occurrences)
        occurrences = np.array([self._occurrences[word] for word in vocabulary], dtype=float)
        labels = np.array([self._relevant[word] for word in vocabulary]) / occurrences
        slope, intercept = np.polyfit(self._idf(vocabulary), labels, 1, w=np.sqrt(occurrences))
        return [intercept + slope * self._idf(passage.words) for passage in passages]

    def _idf(self, words: Sequence[str]) -> np.ndarray:
        frequencies = np.array([self._document_frequencies[word] for word in words], dtype=float)
        return np.log((self._passages + 1) / (frequencies + 1))
