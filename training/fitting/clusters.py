"""The start of a sparse network: each latent term is a cluster of word vectors, and a word has those that it is near to."""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
import torch
from msgspec import Meta
from scipy.sparse import csr_matrix

from submission.errors import UsageError
from submission.rankers.base import Ranker
from submission.rankers.snrm import BESIDE, SNRM
from training.data.seeds import Stream, generator

ROUNDS = 15  # of k-means: later ones move few words
SMALL = 1e-12


class Clusters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of the start."""

    threshold: Annotated[float, Meta(ge=0, lt=1)] = 0.5  # the cosine with a centroid up to which a word has no weight
    rarity: Annotated[float, Meta(ge=0, le=10)] = 1.0  # the power of a word's rarity in its weights; 0: all words alike


def begin_with_clusters(ranker: Ranker, vectors: np.ndarray, clusters: Clusters, seed: int) -> np.ndarray:
    """Set a network's filters to centroids of word vectors, and return the word vectors that belong to these filters.

    With the returned vectors a word w that is the middle of a window has the activation r(w) · max(0, cos(w, c) - threshold)
    for the centroid c, whatever is beside it. As the network has no bias, the threshold is a filter's weight for the common
    mean direction of all vectors, which every word then has alike. The rarity r is ln(1 + rank) of a word by its frequency, to
    a power, in relation to that of the rarest: by Zipf's law what idf is, up to a constant. Clusters are found by spherical
    k-means (Dhillon and Modha 2001), in which words count by their rarity.

    Args:
        ranker: an SNRM of one layer.
        vectors: (V, E), of words in the order of their frequency, the most frequent first.
        clusters: threshold and rarity.
        seed: of the first centroids.

    Returns:
        vectors (V, E), float32.

    Raises:
        UsageError: another network, one with hidden layers, or more latent terms than words.
    """
    if not isinstance(ranker, SNRM) or len(ranker.layers) > 1:
        raise UsageError("[clusters] is the start of an snrm without hidden layers; remove it from the recipe")
    number = ranker.config.latent
    if number > len(vectors):
        raise UsageError(f"network.latent is {number}, the vocabulary has {len(vectors)} words to cluster; lower it")
    mean = vectors.mean(0, keepdims=True)
    common = _unit(mean)
    centred = vectors - mean
    words = _unit(centred - (centred @ common.T) * common)  # (V, E), orthogonal to what all have
    rarity = np.log(1 + np.arange(1, len(vectors) + 1))
    centroids = _spherical_k_means(words, rarity, number, generator(seed, Stream.CLUSTERS))
    weight = ranker.state_dict()["layers.0.weight"].zero_()  # (latent, E, 5)
    weight[:, :, BESIDE] = torch.from_numpy(centroids - clusters.threshold * common)
    factors = (rarity / rarity.max()) ** clusters.rarity
    result: np.ndarray = ((words + common) * factors[:, None]).astype(np.float32)
    return result


def _spherical_k_means(words: np.ndarray, weights: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    """Centroids (number, E) of length 1 of words (V, E) of length 1, that count by weights (V,)."""
    probabilities = weights / weights.sum()
    centroids = words[rng.choice(len(words), number, replace=False, p=probabilities)]
    for _ in range(ROUNDS):
        nearest = (words @ centroids.T).argmax(1)
        sums = csr_matrix((weights.astype(words.dtype), (nearest, np.arange(len(words)))), (number, len(words))) @ words
        empty = np.linalg.norm(sums, axis=1) < SMALL
        sums[empty] = words[rng.choice(len(words), int(empty.sum()), replace=False, p=probabilities)]
        centroids = _unit(sums)
    return centroids


def _unit(vectors: np.ndarray) -> np.ndarray:
    result: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), SMALL)
    return result
