"""Term weights by Terrier's formulas, logarithms to the base 2; arrays in and out.

tf: occurrences in the document; dl: its length in terms; N: documents; df: documents that have the term; cf: its occurrences in
the collection; T: the lengths' sum. Hollatz 2022, section 2.5; Terrier 5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any  # a number, or an array of them


def bm25(tf: Array, dl: Array, df: Array, documents: int, tokens: int, k1: float, b: float) -> Array:
    """log2((N - df + ½) / (df + ½)) · (k1 + 1) tf / (K + tf), K = k1 (1 - b + b dl N / T). Negative where df > N / 2."""
    idf = np.log2((documents - df + 0.5) / (df + 0.5))
    return idf * ((k1 + 1) * tf / (k1 * (1 - b + b * dl * documents / tokens) + tf))


def bm25_of_query(weight: Array, k3: float) -> Array:
    """Compute (k3 + 1) w / (k3 + w), the factor of a query term of weight w in (0, 1]; 1 at w = 1."""
    return (k3 + 1) * weight / (k3 + weight)


def dirichlet(tf: np.ndarray, cf: Array, tokens: int, mu: float) -> np.ndarray:
    """log2(1 + tf / (µ cf / T)): what a term adds that the document has."""
    return of_each(tf, lambda number: np.log2(1 + number / (mu * cf / tokens)))


def dirichlet_length(dl: np.ndarray, mu: float) -> np.ndarray:
    """log2(µ / (dl + µ)): what each term costs by the document's length."""
    return of_each(dl, lambda number: np.log2(mu / (number + mu)))


def of_each(numbers: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """A function of whole numbers; where they are many and small it is computed once of each that there may be."""
    if len(numbers) and numbers.max() < len(numbers):
        return function(np.arange(numbers.max() + 1)).take(numbers)
    return function(numbers)
