"""Weight terms by BM25 or query likelihood, retrieve documents, and expand queries by RM3.

tf: term frequency; dl: document length; N: number of documents; df: document frequency; cf:
collection frequency; T: total document length. Logarithms have base 2, as in Terrier 5 (Hollatz
2022, section 2.5). A query maps distinct terms to weights.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from aragorn.bounds import NonNegative, NonNegativeInt, Positive, Share
from aragorn.index.inverted import InvertedIndex, Statistics, select_top_k

VERSION = 1  # of queries, expansion, scores and their order
COMPUTES_WITH = ("aragorn.index.inverted", "numpy")

Array = Any  # a scalar or an array
Query = dict[str, float]  # term weights, in summation order


def bm25(tf: Array, dl: Array, mean_dl: float, idf: Array, k1: float, b: float) -> Array:
    """Compute idf · (k1 + 1) tf / (tf + k1 (1 - b + b dl / mean_dl))."""
    return idf * (tf * (k1 + 1) / (tf + k1 * (1 - b + b * dl / mean_dl)))


class BM25(msgspec.Struct, frozen=True, tag="bm25", tag_field="name", forbid_unknown_fields=True):
    """BM25 (Robertson, Zaragoza, FnTIR 2009) as implemented in Terrier."""

    k1: NonNegative = 1.2
    b: Share = 0.75
    k3: NonNegative = 8.0

    def score_term(
        self, tf: np.ndarray, dl: np.ndarray, weight: float, statistics: Statistics, position: int
    ) -> np.ndarray:
        """Compute a query term's contribution to the scores of the documents that contain it.

        `tf` and `dl` (documents,) are frequencies and document lengths; `statistics` has the term
        at `position`. The idf log2((N - df + ½) / (df + ½)) is negative if df > N / 2.
        """
        df = statistics.df[position]
        idf = np.log2((statistics.n_documents - df + 0.5) / (df + 0.5))
        mean_dl = statistics.total_length / statistics.n_documents
        query_weight = (self.k3 + 1) * weight / (self.k3 + weight)  # 1 for a weight of 1
        return np.asarray(bm25(tf, dl, mean_dl, idf, self.k1, self.b) * query_weight)

    def score_length(self, dl: np.ndarray, weights: Iterable[float]) -> np.ndarray | float:
        """Return 0: BM25 has no score component that depends on document length alone."""
        return 0.0


class Dirichlet(
    msgspec.Struct, frozen=True, tag="dirichlet", tag_field="name", forbid_unknown_fields=True
):
    """Query likelihood with Dirichlet smoothing (Zhai & Lafferty 2004)."""

    mu: Positive = 2500.0
    # length normalisation per matched term (Terrier) or per query term (textbook)
    length_norm: Literal["matched", "query"] = "matched"

    def score_term(
        self, tf: np.ndarray, dl: np.ndarray, weight: float, statistics: Statistics, position: int
    ) -> np.ndarray:
        """Compute a query term's contribution w log2(1 + tf / (µ cf / T)), as `BM25.score_term`."""
        expected_tf = self.mu * statistics.cf[position] / statistics.total_length
        scores = apply_by_lookup(tf, lambda value: np.log2(1 + value / expected_tf))
        if self.length_norm == "matched":
            scores = scores + self._penalise_length(dl)
        return np.asarray(weight * scores)

    def score_length(self, dl: np.ndarray, weights: Iterable[float]) -> np.ndarray | float:
        """Compute the length normalisation (documents,), unless `score_term` includes it."""
        if self.length_norm == "matched":
            return 0.0
        return np.asarray(sum(weights) * self._penalise_length(dl))

    def _penalise_length(self, dl: np.ndarray) -> np.ndarray:
        """Compute log2(µ / (dl + µ)), the length penalty per term."""
        return apply_by_lookup(dl, lambda value: np.log2(self.mu / (value + self.mu)))


Model = BM25 | Dirichlet


class RM3(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """RM3 query expansion as in terrier-prf (Abdul-Jaleel et al. 2004; Hollatz 2022, 2.5.3)."""

    # feedback documents
    fb_docs: Annotated[int, Meta(ge=1, le=1000)] = 10
    # expansion terms
    fb_terms: Annotated[int, Meta(ge=0, le=1000)] = 10
    # λ, weight of the original query
    original_query_weight: Share = 0.5
    # softmax of scores, or uniform
    document_weighting: Literal["score", "equal"] = "score"
    # false: all terms of the expanded query have weight 1
    weighted_terms: bool = True
    # rarer terms are excluded
    min_df: NonNegativeInt = 2
    # fraction of documents; terms at or above it are excluded
    max_df_ratio: NonNegative = 0.1


def apply_by_lookup(values: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply an element-wise function to integers from 0, through a table if that is faster."""
    if len(values) and values.max() < len(values):
        return function(np.arange(values.max() + 1)).take(values)
    return function(values)


@dataclass(frozen=True)
class Hits:
    """Retrieved documents, best first."""

    documents: np.ndarray  # (N,) document numbers
    scores: np.ndarray  # (N,)


def build_query(terms: Iterable[str]) -> Query:
    """Weight each term of a text by its count, divided by the largest count."""
    counts = Counter(terms)
    max_count = max(counts.values(), default=0)
    return {term: count / max_count for term, count in counts.items()}


def search(index: InvertedIndex, query: Query, model: Model, depth: int) -> Hits:
    """Return the `depth` top documents with a query term; ties go to the lower document number."""
    statistics = index.get_statistics(list(query))
    scores = np.zeros(len(index.lengths))
    is_match = np.zeros(len(index.lengths), dtype=bool)
    for position, (term, weight) in enumerate(query.items()):
        postings, tf = index.get_postings(term)
        if len(postings):
            documents = postings.astype(np.intp)  # converted once for three uses
            dl = index.lengths.take(documents)
            scores[documents] += model.score_term(tf, dl, weight, statistics, position)
            is_match[documents] = True
    matches = np.flatnonzero(is_match)
    match_scores = scores[matches] + model.score_length(index.lengths[matches], query.values())
    order = select_top_k(match_scores, depth)
    return Hits(matches[order], match_scores[order])


def compute_term_contributions(
    query: Query, model: Model, statistics: Statistics, tf: np.ndarray, dl: np.ndarray
) -> np.ndarray:
    """Compute the contributions (terms, documents) of query terms to document scores.

    `statistics` and `tf` (terms, documents) are in the order of the query's terms. Documents
    without query terms score 0.
    """
    # terms absent from the collection do not count
    indexed_tf = np.where(statistics.df[:, None] > 0, tf, 0)
    contributions = np.zeros(tf.shape)
    is_match = indexed_tf.any(axis=0)
    for position, (frequency, weight) in enumerate(zip(indexed_tf, query.values(), strict=True)):
        contains = frequency > 0
        if contains.any():
            contributions[position, contains] = model.score_term(
                frequency[contains], dl[contains], weight, statistics, position
            )
        contributions[position, is_match] += model.score_length(dl[is_match], [weight])
    return contributions


def expand_query(index: InvertedIndex, query: Query, model: Model, expansion: RM3) -> Query:
    """Expand a query with terms of its top documents (RM3); return it unchanged if no document
    contains a query term.

    r(t) = Σ p(d) tf / dl over the feedback documents d, where p(d) is the softmax of their scores
    or uniform. Of the terms that are neither too rare nor too frequent (`min_df`, `max_df_ratio`),
    those with the largest r (ties: alphabetically) are selected, and their r normalised to sum to
    1. With the query's weights q(t), the weight of a term is λ q(t) / Σ q + (1 - λ) r(t), divided
    by the largest weight. Query terms absent from the collection are dropped.
    """
    indexed_query = {term: weight for term, weight in query.items() if term in index.term_numbers}
    feedback = search(index, indexed_query, model, expansion.fb_docs)
    if not len(feedback.documents):
        return query
    relevance = _compute_relevance_model(index, feedback, expansion)
    df = dict(zip(relevance, index.get_statistics(list(relevance)).df.tolist(), strict=True))
    max_df = int(expansion.max_df_ratio * len(index.lengths))
    candidates = [term for term in relevance if expansion.min_df <= df[term] < max_df]
    candidates.sort(key=lambda term: (-relevance[term], term))
    expansion_terms = candidates[: expansion.fb_terms]
    if not expansion_terms:
        return indexed_query
    query_total = sum(indexed_query.values())
    relevance_total = sum(relevance[term] for term in expansion_terms)
    original_weight = expansion.original_query_weight
    weights = {
        term: original_weight * weight / query_total for term, weight in indexed_query.items()
    }
    for term in expansion_terms:
        weight = (1 - original_weight) * relevance[term] / relevance_total
        weights[term] = weights.get(term, 0.0) + weight
    if not expansion.weighted_terms:
        return dict.fromkeys(weights, 1.0)
    max_weight = max(weights.values())
    return {term: weight / max_weight for term, weight in weights.items() if weight > 0}


def _compute_relevance_model(
    index: InvertedIndex, feedback: Hits, expansion: RM3
) -> dict[str, float]:
    """Compute r(t) (see `expand_query`) for all terms of the feedback documents."""
    weights = np.ones(len(feedback.scores))
    if expansion.document_weighting == "score":
        weights = np.exp(feedback.scores - feedback.scores.max())
    weights /= weights.sum()
    relevance: dict[str, float] = {}
    for document, weight in zip(feedback.documents.tolist(), weights.tolist(), strict=True):
        terms, tf = index.get_document_terms(document)
        values = tf / index.lengths[document] * weight
        for term, value in zip(terms, values.tolist(), strict=True):
            relevance[term] = relevance.get(term, 0.0) + value
    return relevance
