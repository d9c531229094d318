"""Compute Terrier's term weights, with base-2 logarithms, for scalars or arrays.

tf: term frequency; dl: document length; N: number of documents; df: document frequency; cf:
collection frequency; T: total document length. Hollatz 2022, section 2.5; Terrier 5.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any  # a scalar or an array


def bm25(
    tf: Array, dl: Array, df: Array, document_count: int, token_count: int, k1: float, b: float
) -> Array:
    """Compute log2((N - df + ½) / (df + ½)) · (k1 + 1) tf / (K + tf), K = k1 (1 - b + b dl N / T);
    negative if df > N / 2."""
    idf = np.log2((document_count - df + 0.5) / (df + 0.5))
    return idf * ((k1 + 1) * tf / (k1 * (1 - b + b * dl * document_count / token_count) + tf))


def bm25_query_weight(weight: Array, k3: float) -> Array:
    """Compute (k3 + 1) w / (k3 + w), the factor of a query term with weight w in (0, 1]; it is 1
    for w = 1."""
    return (k3 + 1) * weight / (k3 + weight)


def dirichlet_term_weight(tf: np.ndarray, cf: Array, token_count: int, mu: float) -> np.ndarray:
    """Compute log2(1 + tf / (µ cf / T)), the weight of a matching term."""
    return apply_by_lookup(tf, lambda value: np.log2(1 + value / (mu * cf / token_count)))


def dirichlet_length_penalty(dl: np.ndarray, mu: float) -> np.ndarray:
    """Compute log2(µ / (dl + µ)), the length penalty per term."""
    return apply_by_lookup(dl, lambda value: np.log2(mu / (value + mu)))


def apply_by_lookup(values: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply an element-wise function to non-negative integers, through a lookup table if that needs
    fewer evaluations."""
    if len(values) and values.max() < len(values):
        return function(np.arange(values.max() + 1)).take(values)
    return function(values)
