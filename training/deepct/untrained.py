"""Baselines without a network: one weight for all words, and a line over idf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from training.deepct.measures import Weighed


class Words:
    """Word statistics of the training passages."""

    def __init__(self) -> None:
        """Create empty statistics."""
        self._passages = 0
        self._df: Counter[str] = Counter()  # passages that have a word
        self._occurrences: Counter[str] = Counter()
        self._mattering: Counter[str] = Counter()  # occurrences that matter

    def add(self, passage: Weighed) -> None:
        """Count the words of a passage."""
        self._passages += 1
        self._df.update({*passage.words})
        self._occurrences.update(passage.words)
        self._mattering.update(word for word, label in zip(passage.words, passage.labels, strict=True) if label)

    def constants(self, passages: Sequence[Weighed]) -> list[np.ndarray]:
        """The constant with the least squared error, for each word of some passages."""
        share = self._mattering.total() / max(1, self._occurrences.total())
        return [np.full(len(passage.words), share) for passage in passages]

    def by_idf(self, passages: Sequence[Weighed]) -> list[np.ndarray]:
        """The line over ln((N + 1) / (df + 1)) with the least squared error, for each word of some passages."""
        known = list(self._occurrences)
        number = np.array([self._occurrences[word] for word in known], dtype=float)
        labels = np.array([self._mattering[word] for word in known]) / number
        slope, intercept = np.polyfit(self._idf(known), labels, 1, w=np.sqrt(number))
        return [intercept + slope * self._idf(passage.words) for passage in passages]

    def _idf(self, words: Sequence[str]) -> np.ndarray:
        return np.log((self._passages + 1) / (np.array([self._df[word] for word in words], dtype=float) + 1))
