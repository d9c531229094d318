"""Measure how well weights predict which words matter: R², MAP, R-precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from submission.errors import InputError


@dataclass(frozen=True)
class Weighed:
    """The words of a passage in their order, as they are looked up, with their labels (W,), 1 where one matters, else 0."""

    words: list[str]
    labels: np.ndarray


def measures(passages: Sequence[Weighed], weights: Sequence[np.ndarray]) -> dict[str, float]:
    """In percent: R², over all words; MAP and R-precision of the distinct words of passages in which some matter.

    R² is the share of the labels' variance that weights explain, 0 or less for any constant. A word's weight is that of its
    heaviest occurrence; of equal ones the first comes first.

    Args:
        passages: to be measured on.
        weights: (W,) of each.

    Raises:
        InputError: no word of any passage matters, or all do.
    """
    labels, said = np.concatenate([passage.labels for passage in passages]), np.concatenate(weights)
    if np.ptp(labels) == 0:
        raise InputError(
            f"{len(passages)} passages to validate on have words of one kind alone; use a larger part of the corpus"
        )
    precisions = [_precisions(passage, own) for passage, own in zip(passages, weights, strict=True) if passage.labels.any()]
    average, at_number = np.mean(precisions, axis=0)
    explained = 1 - np.square(said - labels).sum() / np.square(labels - labels.mean()).sum()
    return {name: round(100 * float(value), 2) for name, value in (("R²", explained), ("MAP", average), ("Rprec", at_number))}


def _precisions(passage: Weighed, weights: np.ndarray) -> tuple[float, float]:
    """Average precision, and precision among as many words as matter."""
    heaviest: dict[str, float] = {}
    for word, weight in zip(passage.words, weights.tolist(), strict=True):
        heaviest[word] = max(weight, heaviest.get(word, -np.inf))
    mattering = {word for word, label in zip(passage.words, passage.labels, strict=True) if label}
    ordered = sorted(heaviest, key=lambda word: -heaviest[word])
    hits = np.array([word in mattering for word in ordered])
    precision = hits.cumsum() / np.arange(1, len(hits) + 1)
    return float(precision[hits].mean()), float(hits[: len(mattering)].mean())
