"""Which pairs of the gold sentences the teacher is asked to label (Thakur et al. 2021, section 3.1).

A sample is an array (pairs, 2) of sentence numbers, the lower one first, in ascending order: no sentence with itself, no gold
pair, no pair twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from submission.retrieval.conclusions import ConclusionIndex

ROWS = 512  # sentences whose cosines are in memory


@dataclass(frozen=True)
class Sentences:
    """The distinct sentences of gold pairs, numbered as they occur."""

    texts: list[str]
    topics: np.ndarray  # (sentences,) numbers of their topics
    gold: np.ndarray  # (pairs, 2) numbers of the sentences that were labelled together, the lower one first

    @classmethod
    def of(cls, pairs: pd.DataFrame) -> Sentences:
        """Collect the sentences of gold pairs `first second topic`."""
        numbers, texts = pd.factorize(pd.concat([pairs["first"], pairs["second"]]))
        topics = np.zeros(len(texts), dtype=np.int64)
        topics[numbers] = np.tile(pd.factorize(pairs["topic"])[0], 2)
        return cls(list(texts), topics, np.sort(numbers.reshape(2, -1).T, axis=1))

    def pairs(self, sample: np.ndarray) -> pd.DataFrame:
        """A sample as `first second`."""
        texts = np.array(self.texts, dtype=object)
        return pd.DataFrame({"first": texts[sample[:, 0]], "second": texts[sample[:, 1]]})

    def partners(self) -> list[np.ndarray]:
        """Map each sentence to those that it must not be paired with: itself, and those of its gold pairs."""
        both = np.concatenate([self.gold, self.gold[:, ::-1], np.repeat(np.arange(len(self.texts))[:, None], 2, axis=1)])
        both = both[np.argsort(both[:, 0], kind="stable")]
        return np.split(both[:, 1], np.flatnonzero(np.diff(both[:, 0])) + 1)


def random(sentences: Sentences, number: int, rng: np.random.Generator) -> np.ndarray:
    """Draw so many pairs of sentences of one topic uniformly; all where there are fewer.

    Of one topic, as it must have been in the paper: its 723,540 random pairs of BWS are about all that lie within a topic.
    """
    members = [np.flatnonzero(sentences.topics == topic) for topic in range(sentences.topics.max() + 1)]
    sizes = np.array([len(own) * (len(own) - 1) // 2 for own in members])
    most = min(number + len(sentences.gold), int(sizes.sum()))  # that many remain when all gold pairs are among them
    drawn = rng.permutation(rng.choice(int(sizes.sum()), most, replace=False))
    starts = sizes.cumsum() - sizes
    topic = np.searchsorted(sizes.cumsum(), drawn, side="right")
    higher, lower = _unordered(drawn - starts[topic])
    found = np.empty((most, 2), dtype=np.int64)
    for at, own in enumerate(members):
        its = topic == at
        found[its] = np.stack([own[lower[its]], own[higher[its]]], axis=1)
    return _ordered(found[~_among(found, sentences.gold)][:number])


def bm25(sentences: Sentences, k: int) -> np.ndarray:
    """Each sentence with the k others that answer it best by the project's BM25; equal ones by number; none without a word."""
    documents = [str(number) for number in range(len(sentences.texts))]
    index = ConclusionIndex.of(pd.DataFrame({"docno": documents, "conclusion": sentences.texts}))
    place = np.empty(len(documents), dtype=np.int64)  # of each sentence among the index's distinct normalised texts
    for number, docnos in enumerate(index.docnos):
        place[np.array(docnos, dtype=np.int64)] = number
    return _nearest(sentences, (index.scores(text)[place] for text in sentences.texts), k, least=0.0)


def semantic(sentences: Sentences, vectors: np.ndarray, k: int) -> np.ndarray:
    """Each sentence with the k others of the largest cosine; equal ones by number.

    Args:
        sentences: which.
        vectors: (sentences, dimensions) float, by a bi-encoder trained on gold.
        k: how many at most.
    """
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    blocks = (unit[start : start + ROWS] @ unit.T for start in range(0, len(unit), ROWS))
    return _nearest(sentences, (row for block in blocks for row in block), k, least=-np.inf)


def union(*samples: np.ndarray) -> np.ndarray:
    """Return the union of samples of pairs."""
    return np.unique(np.concatenate(samples), axis=0)


def thinned(sample: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    """Draw so many pairs of a sample uniformly; all where there are fewer."""
    return sample[np.sort(rng.permutation(len(sample))[:number])]


def _nearest(sentences: Sentences, scores: Iterable[np.ndarray], k: int, least: float) -> np.ndarray:
    """Each sentence with its k best by scores (sentences,) above `least`, of those that it may be paired with."""
    found = []
    for number, (row, excluded) in enumerate(zip(scores, sentences.partners(), strict=True)):
        row[excluded] = -np.inf
        candidates = np.flatnonzero(row > least)
        if len(candidates) > k:
            candidates = candidates[row[candidates] >= np.partition(row[candidates], -k)[-k]]
        best = candidates[np.argsort(-row[candidates], kind="stable")[:k]]
        found.append(np.stack([np.minimum(best, number), np.maximum(best, number)], axis=1))
    return np.unique(np.concatenate(found), axis=0)


def _unordered(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs (higher, lower) with these numbers in the order (1, 0), (2, 0), (2, 1), (3, 0), …"""
    higher = ((1 + np.sqrt(1 + 8 * numbers)) / 2).astype(np.int64)  # exact far beyond any corpus: numbers stay below 2**50
    return higher, numbers - higher * (higher - 1) // 2


def _among(pairs: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which pairs are among others."""
    base = max(int(pairs.max(initial=0)), int(others.max(initial=0))) + 1
    return np.isin(pairs @ [base, 1], others @ [base, 1])


def _ordered(pairs: np.ndarray) -> np.ndarray:
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
