"""Initialise a sparse network so that its latent terms are clusters of word vectors."""

from typing import Annotated

import msgspec
import numpy as np
import torch
from msgspec import Meta
from scipy.sparse import csr_matrix

from aragorn.errors import UsageError
from aragorn.models.network import Ranker
from aragorn.models.rankers.snrm import HALF_WINDOW, SNRM
from aragorn_training.data.split import RandomStream, create_generator

KMEANS_ITERATIONS = 15  # later iterations reassign few words
EPSILON = 1e-12


class ClusterInitialisation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings for SNRM's filters as centroids of vectors, see `initialise_from_clusters`."""

    threshold: Annotated[float, Meta(ge=0, lt=1)] = 0.5  # minimum cosine with a centroid
    # exponent of a word's rarity; 0: all words have equal weight
    rarity_exponent: Annotated[float, Meta(ge=0, le=10)] = 1.0


def initialise_from_clusters(
    ranker: Ranker, vectors: np.ndarray, clusters: ClusterInitialisation, seed: int
) -> np.ndarray:
    """Set an SNRM's filters to centroids of word vectors (V, E), most frequent word first; return
    the transformed word vectors (V, E) float32.

    With these, a word w at the window's centre activates the term of centroid c with r(w) · max(0,
    cos(w, c) - threshold), regardless of the neighbouring words. As the network has no bias, all
    returned vectors share a component in the mean direction, for which a filter's weight is minus
    the threshold. The rarity r is ln(1 + frequency rank), relative to that of the rarest word and
    raised to `rarity_exponent`; by Zipf's law this is IDF up to a constant. Centroids come from
    spherical k-means (Dhillon and Modha 2001), weighted by rarity.

    Raises:
        UsageError: If the network is not an SNRM, has hidden layers, or has more latent terms than
            there are words.
    """
    if not isinstance(ranker, SNRM) or len(ranker.layers) > 1:
        cause = "[clusters] applies only to snrm without hidden layers"
        raise UsageError(f"{cause}; remove it from the recipe")
    n_clusters = ranker.config.latent
    if n_clusters > (n := len(vectors)):
        cause = f"network.latent is {n_clusters}, but the vocabulary has only {n} words"
        raise UsageError(f"{cause}; lower it")
    mean_vector = vectors.mean(0, keepdims=True)
    mean_direction = _normalise_rows(mean_vector)
    offsets = vectors - mean_vector
    # (V, E), orthogonal to the mean
    unit_vectors = _normalise_rows(offsets - (offsets @ mean_direction.T) * mean_direction)
    rarity = np.log(1 + np.arange(1, len(vectors) + 1))
    centroids = _spherical_k_means(
        unit_vectors, rarity, n_clusters, create_generator(seed, RandomStream.CENTROIDS)
    )
    weight = ranker.state_dict()["layers.0.weight"].zero_()  # (latent, E, 5)
    weight[:, :, HALF_WINDOW] = torch.from_numpy(centroids - clusters.threshold * mean_direction)
    word_weights = (rarity / rarity.max()) ** clusters.rarity_exponent
    return np.asarray((unit_vectors + mean_direction) * word_weights[:, None], np.float32)


def _spherical_k_means(
    unit_vectors: np.ndarray, weights: np.ndarray, n_clusters: int, rng: np.random.Generator
) -> np.ndarray:
    """Return unit centroids (n_clusters, E) of unit vectors (V, E) with weights (V,)."""
    n_words = len(unit_vectors)
    probabilities = weights / weights.sum()
    weights = weights.astype(unit_vectors.dtype)
    centroids = unit_vectors[rng.choice(n_words, n_clusters, replace=False, p=probabilities)]
    for _ in range(KMEANS_ITERATIONS):
        nearest_centroids = (unit_vectors @ centroids.T).argmax(1)
        membership = csr_matrix(
            (weights, (nearest_centroids, np.arange(n_words))), (n_clusters, n_words)
        )
        sums = membership @ unit_vectors
        is_empty = np.linalg.norm(sums, axis=1) < EPSILON
        words = rng.choice(n_words, int(is_empty.sum()), replace=False, p=probabilities)
        sums[is_empty] = unit_vectors[words]
        centroids = _normalise_rows(sums)
    return centroids


def _normalise_rows(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, EPSILON))
