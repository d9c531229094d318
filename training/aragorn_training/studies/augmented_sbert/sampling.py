"""Sample sentence pairs for the teacher to label, and subsample labelled pairs (Thakur et al. 2021,
section 3.1).

A sample is a sorted array (pairs, 2) of sentence indices, lower index first, without self pairs,
gold pairs and duplicates. KDE sampling keeps random pairs such that their labels are distributed
like those of the gold pairs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import gaussian_kde

from aragorn.errors import TrainingError
from aragorn.systems.conclusions import ConclusionIndex
from aragorn_training.sbert.networks import POSITIVE_THRESHOLD

BLOCK_ROWS = 512  # rows of the similarity matrix computed at once
DENSITY_GRID = np.linspace(0, 1, 1001)  # evaluation grid of the densities


@dataclass(frozen=True)
class SentencePool:
    """Distinct sentences of the gold pairs, in order of occurrence."""

    texts: list[str]
    topics: np.ndarray  # (sentences,) topic indices
    gold: np.ndarray  # (pairs, 2) sentence indices of the gold pairs, lower index first

    @classmethod
    def from_pairs(cls, pairs: pd.DataFrame) -> SentencePool:
        """Collect the sentences of gold pairs `first second topic`."""
        indices, texts = pd.factorize(pd.concat([pairs["first"], pairs["second"]]))
        topics = np.zeros(len(texts), dtype=np.int64)
        topics[indices] = np.tile(pd.factorize(pairs["topic"])[0], 2)
        return cls(list(texts), topics, np.sort(indices.reshape(2, -1).T, axis=1))

    def to_frame(self, sample: np.ndarray) -> pd.DataFrame:
        """Return a sample as a frame `first second`."""
        texts = np.array(self.texts, dtype=object)
        return pd.DataFrame({"first": texts[sample[:, 0]], "second": texts[sample[:, 1]]})

    def list_excluded_partners(self) -> list[np.ndarray]:
        """Return the excluded partners of each sentence: itself and its gold partners."""
        pairs = np.concatenate(
            [
                self.gold,
                self.gold[:, ::-1],
                np.repeat(np.arange(len(self.texts))[:, None], 2, axis=1),
            ]
        )
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        return np.split(pairs[:, 1], np.flatnonzero(np.diff(pairs[:, 0])) + 1)


def sample_random_pairs(sentences: SentencePool, n: int, rng: np.random.Generator) -> np.ndarray:
    """Sample at most `n` within-topic pairs uniformly.

    Thakur et al. (2021) also seem to sample within topics: their 723,540 random BWS pairs are
    almost all such pairs.
    """
    members = [
        np.flatnonzero(sentences.topics == topic) for topic in range(sentences.topics.max() + 1)
    ]
    sizes = np.array([len(group) * (len(group) - 1) // 2 for group in members])
    # enough pairs remain after gold pairs are removed
    n_draws = min(n + len(sentences.gold), int(sizes.sum()))
    indices = rng.permutation(rng.choice(int(sizes.sum()), n_draws, replace=False))
    starts = sizes.cumsum() - sizes
    topic_of = np.searchsorted(sizes.cumsum(), indices, side="right")
    higher_indices, lower_indices = _decode_pair_indices(indices - starts[topic_of])
    pairs = np.empty((n_draws, 2), dtype=np.int64)
    for topic, group in enumerate(members):
        is_in_topic = topic_of == topic
        pairs[is_in_topic] = np.stack(
            [group[lower_indices[is_in_topic]], group[higher_indices[is_in_topic]]], axis=1
        )
    is_gold = np.isin(pairs @ [len(sentences.texts), 1], sentences.gold @ [len(sentences.texts), 1])
    sample = pairs[~is_gold][:n]
    return sample[np.lexsort((sample[:, 1], sample[:, 0]))]


def pair_by_bm25(sentences: SentencePool, k: int) -> np.ndarray:
    """Pair each sentence with its top `k` partners by BM25 that share a term; ties by index."""
    docnos = [str(index) for index in range(len(sentences.texts))]
    index = ConclusionIndex.build(pd.DataFrame({"docno": docnos, "conclusion": sentences.texts}))
    text_index = np.empty(len(docnos), dtype=np.int64)  # index of each sentence's normalised text
    for position, duplicates in enumerate(index.docnos):
        text_index[np.array(duplicates, dtype=np.int64)] = position
    return _pair_top_k(
        sentences, (index.score_all(text)[text_index] for text in sentences.texts), k, min_score=0.0
    )


def pair_by_cosine(sentences: SentencePool, vectors: np.ndarray, k: int) -> np.ndarray:
    """Pair each sentence with its top `k` partners by cosine of vectors (sentences, D)."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    blocks = (
        unit[start : start + BLOCK_ROWS] @ unit.T for start in range(0, len(unit), BLOCK_ROWS)
    )
    return _pair_top_k(sentences, (row for block in blocks for row in block), k, min_score=-np.inf)


def _pair_top_k(
    sentences: SentencePool, scores: Iterable[np.ndarray], k: int, min_score: float
) -> np.ndarray:
    """Pair each sentence with its top `k` partners by scores (sentences,) above `min_score`, but
    not itself and its gold partners; return the distinct pairs (pairs, 2)."""
    samples = []
    for index, (row, excluded_indices) in enumerate(
        zip(scores, sentences.list_excluded_partners(), strict=True)
    ):
        row[excluded_indices] = -np.inf
        candidates = np.flatnonzero(row > min_score)
        if len(candidates) > k:
            candidates = candidates[row[candidates] >= np.partition(row[candidates], -k)[-k]]
        partners = candidates[np.argsort(-row[candidates], kind="stable")[:k]]
        samples.append(np.stack([np.minimum(partners, index), np.maximum(partners, index)], axis=1))
    return np.unique(np.concatenate(samples), axis=0)


def _decode_pair_indices(indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Decode triangular indices: 0 → (1, 0), 1 → (2, 0), 2 → (2, 1), …"""
    # exact for indices below 2**50
    higher_indices = ((1 + np.sqrt(1 + 8 * indices)) / 2).astype(np.int64)
    return higher_indices, indices - higher_indices * (higher_indices - 1) // 2


def draw_density_mask(scores: np.ndarray, gold: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a mask (pairs,) that keeps pairs with their probability of `estimate_retention`."""
    return np.asarray(rng.random(len(scores)) < estimate_retention(scores, gold))


def estimate_retention(scores: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """Return Q(s) = min(1, F_gold(s) / F_silver(s)) of each score s; F: Gaussian kernel density
    estimate (Scott's bandwidth).

    Teacher scores (pairs,) and gold labels (gold pairs,) must be in [0, 1]; TrainingError is raised
    if either is constant.
    """
    for values, description, fix in (
        (scores, "the teacher's scores of random pairs", "lower the teacher's learning rate"),
        (gold, "the gold labels", "use training pairs with different labels"),
    ):
        if np.ptp(values) < 1e-6:
            raise TrainingError(
                f"{description} are all {values[0]:.6f}: no density can be estimated; {fix}"
            )
    gold_density, silver_density = (gaussian_kde(values)(DENSITY_GRID) for values in (gold, scores))
    ratio = np.ones(len(DENSITY_GRID))
    np.divide(gold_density, silver_density, out=ratio, where=gold_density < silver_density)
    return np.asarray(np.interp(scores, DENSITY_GRID, ratio))


def draw_class_ratio_mask(
    scores: np.ndarray, gold: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw a mask (pairs,) of all positives and random negatives in the ratio of gold labels."""
    mask = scores >= POSITIVE_THRESHOLD
    n_negatives = round(mask.sum() * np.sum(gold == 0) / np.sum(gold == 1))
    mask[rng.permutation(np.flatnonzero(~mask))[:n_negatives]] = True
    return np.asarray(mask)
