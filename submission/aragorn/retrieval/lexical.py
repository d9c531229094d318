"""Retrieve documents from a term index by BM25 or query likelihood with Dirichlet smoothing, and
expand queries by RM3.

A query maps distinct terms to weights. An unexpanded query weights each term by its count, divided
by the largest count.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import msgspec
import numpy as np
import torch
from msgspec import Meta

from aragorn.progress import track
from aragorn.retrieval.sparse_matrix import select_top_k
from aragorn.retrieval.term_index import CollectionStatistics, IndexSettings, TermIndex
from aragorn.retrieval.term_weighting import (
    bm25,
    bm25_query_weight,
    dirichlet_length_penalty,
    dirichlet_term_weight,
)

VERSION = 1  # of queries, expansion, scores and their order

UPPER_BOUND = 1e9  # exclusive upper bound of parameters
NonNegative = Annotated[float, Meta(ge=0, lt=UPPER_BOUND)]
Fraction = Annotated[float, Meta(ge=0, le=1)]

Query = dict[str, float]  # term weights, in summation order


class BM25(msgspec.Struct, frozen=True, tag="bm25", tag_field="name", forbid_unknown_fields=True):
    """BM25 as implemented in Terrier."""

    k1: NonNegative = 1.2
    b: Fraction = 0.75
    k3: NonNegative = 8.0

    def score_term(
        self,
        tf: np.ndarray,
        dl: np.ndarray,
        weight: float,
        statistics: CollectionStatistics,
        term_index: int,
    ) -> np.ndarray:
        """Compute a query term's contribution to the scores of the documents that contain it.

        `tf` and `dl` (documents,) are frequencies and document lengths; `statistics` has the term
        at position `term_index`.
        """
        scores = bm25(
            tf,
            dl,
            statistics.df[term_index],
            statistics.document_count,
            statistics.token_count,
            self.k1,
            self.b,
        )
        return np.asarray(scores * bm25_query_weight(weight, self.k3))

    def score_length(self, dl: np.ndarray, weights: Iterable[float]) -> np.ndarray | float:
        """Return 0: BM25 has no score component that depends on document length alone."""
        return 0.0


class Dirichlet(
    msgspec.Struct, frozen=True, tag="dirichlet", tag_field="name", forbid_unknown_fields=True
):
    """Query likelihood with Dirichlet smoothing (Zhai & Lafferty 2004)."""

    mu: Annotated[float, Meta(gt=0, lt=UPPER_BOUND)] = 2500.0
    # length normalisation per matched term (Terrier) or per query term (textbook)
    length_norm: Literal["matched", "query"] = "matched"

    def score_term(
        self,
        tf: np.ndarray,
        dl: np.ndarray,
        weight: float,
        statistics: CollectionStatistics,
        term_index: int,
    ) -> np.ndarray:
        """Compute a query term's contribution to the scores of the documents that contain it.

        `tf` and `dl` (documents,) are frequencies and document lengths; `statistics` has the term
        at position `term_index`.
        """
        scores = dirichlet_term_weight(
            tf, statistics.cf[term_index], statistics.token_count, self.mu
        )
        if self.length_norm == "matched":
            scores = scores + dirichlet_length_penalty(dl, self.mu)
        return np.asarray(weight * scores)

    def score_length(self, dl: np.ndarray, weights: Iterable[float]) -> np.ndarray | float:
        """Compute the length normalisation (documents,) for query terms with these weights; 0 if
        `score_term` includes it."""
        return (
            0.0
            if self.length_norm == "matched"
            else np.asarray(sum(weights) * dirichlet_length_penalty(dl, self.mu))
        )


Model = BM25 | Dirichlet


class RM3(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """RM3 query expansion as in terrier-prf (Abdul-Jaleel et al. 2004; Hollatz 2022, section
    2.5.3)."""

    # feedback documents
    fb_docs: Annotated[int, Meta(ge=1, le=1000)] = 10
    # expansion terms
    fb_terms: Annotated[int, Meta(ge=0, le=1000)] = 10
    # λ, weight of the original query
    original_query_weight: Fraction = 0.5
    # softmax of scores, or uniform
    document_weighting: Literal["score", "equal"] = "score"
    # false: all terms of the expanded query have weight 1
    weighted_terms: bool = True
    # rarer terms are excluded
    min_df: Annotated[int, Meta(ge=0)] = 2
    # fraction of documents; terms at or above it are excluded
    max_df_ratio: NonNegative = 0.1


class LexicalParameters(msgspec.Struct, frozen=True, dict=True, forbid_unknown_fields=True):
    """Parameters of a lexical system, tuned on qrels and stored as a checkpoint.

    Files: config.json, metrics.json, provenance.json (hashes), README.md.
    """

    version: str  # version of the code that tuned them
    index: IndexSettings
    model: Model
    expansion: RM3 | None
    # tagger checkpoint whose terms are indexed instead of the words of the texts
    enrichment: str | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all parameters that affect rankings, except the enrichment, whose checkpoint has
        a separate fingerprint."""
        return hashlib.sha256(
            msgspec.json.encode((self.index, self.model, self.expansion), order="sorted")
        ).hexdigest()

    def describe(self) -> str:
        """Describe the parameters in one line."""
        text = f"{type(self.model).__name__}: {_format_fields(self.model)}; stemmer {self.index.stemmer}"
        if self.enrichment is not None:
            text += f"; terms of {self.enrichment}"
        if self.expansion is not None:
            text += f"; RM3: {_format_fields(self.expansion)}"
        return text


def _format_fields(settings: msgspec.Struct) -> str:
    return ", ".join(f"{name} {value}" for name, value in msgspec.structs.asdict(settings).items())


@dataclass(frozen=True)
class Hits:
    """Retrieved documents, best first."""

    documents: np.ndarray  # (N,) document numbers
    scores: np.ndarray  # (N,)


def build_query(terms: Iterable[str]) -> Query:
    """Build an unexpanded query from a text's terms."""
    counts = Counter(terms)
    return {term: count / max(counts.values()) for term, count in counts.items()}


def search(index: TermIndex, query: Query, model: Model, depth: int) -> Hits:
    """Return at most `depth` top documents that contain a query term; ties go to the lower document
    number."""
    statistics, scores = index.get_statistics(list(query)), np.zeros(len(index.lengths))
    is_match = np.zeros(len(index.lengths), dtype=bool)
    for term_index, (term, weight) in enumerate(query.items()):
        postings, tf = index.get_postings(term)
        if len(postings):
            documents = postings.astype(np.intp)  # converted once for three uses
            scores[documents] += model.score_term(
                tf, index.lengths.take(documents), weight, statistics, term_index
            )
            is_match[documents] = True
    hits = np.flatnonzero(is_match)
    hit_scores = scores[hits] + model.score_length(index.lengths[hits], query.values())
    order = select_top_k(hit_scores, depth)
    return Hits(hits[order], hit_scores[order])


def search_all(
    index: TermIndex,
    texts: Sequence[str],
    model: Model,
    expansion: RM3 | None,
    depth: int,
    label: str,
) -> list[Hits]:
    """Search for topic titles in parallel threads; return the hits of each title. `label` names the
    progress display."""
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        results = pool.map(
            lambda text: search(index, parse_query(index, text, model, expansion), model, depth),
            texts,
        )
        return [next(results) for _ in track(texts, label, "topics")]


def parse_query(index: TermIndex, text: str, model: Model, expansion: RM3 | None) -> Query:
    """Parse a topic title into a query, expanded if `expansion` is not None."""
    query = build_query(index.analyse_query(text))
    return query if expansion is None else expand_query(index, query, model, expansion)


def compute_term_contributions(
    query: Query, model: Model, statistics: CollectionStatistics, tf: np.ndarray, dl: np.ndarray
) -> np.ndarray:
    """Compute the contributions (terms, documents) of query terms to document scores; a score is
    the sum over the terms.

    `statistics` and `tf` (terms, documents) are in the order of the query's terms. Documents
    without query terms score 0.
    """
    # terms absent from the collection do not count
    indexed_tf = np.where(statistics.df[:, None] > 0, tf, 0)
    contributions, is_match = np.zeros(tf.shape), indexed_tf.any(axis=0)
    for term_index, (frequency, weight) in enumerate(zip(indexed_tf, query.values(), strict=True)):
        contains = frequency > 0
        if contains.any():
            contributions[term_index, contains] = model.score_term(
                frequency[contains], dl[contains], weight, statistics, term_index
            )
        contributions[term_index, is_match] += model.score_length(dl[is_match], [weight])
    return contributions


def expand_query(index: TermIndex, query: Query, model: Model, expansion: RM3) -> Query:
    """Expand a query with terms of its top documents (RM3); return it unchanged if no document
    contains a query term.

    r(t) = Σ p(d) tf / dl over the feedback documents d, where p(d) is the softmax of their scores
    or uniform. Of the terms that are neither too rare nor too frequent (`min_df`, `max_df_ratio`),
    those with the largest r (ties: alphabetically) are selected, and their r normalised to sum to
    1. With the query's weights q(t), the weight of a term is λ q(t) / Σ q + (1 - λ) r(t), divided
    by the largest weight. Query terms absent from the collection are dropped.
    """
    indexed_query = {term: weight for term, weight in query.items() if term in index.term_ids}
    feedback = search(index, indexed_query, model, expansion.fb_docs)
    if not len(feedback.documents):
        return query
    relevance = _compute_relevance_model(index, feedback, expansion)
    df = dict(zip(relevance, index.get_statistics(list(relevance)).df.tolist(), strict=True))
    max_df = int(expansion.max_df_ratio * len(index.lengths))
    candidates = [term for term in relevance if expansion.min_df <= df[term] < max_df]
    expansion_terms = sorted(candidates, key=lambda term: (-relevance[term], term))[
        : expansion.fb_terms
    ]
    if not expansion_terms:
        return indexed_query
    relevance_total, query_total = (
        sum(relevance[term] for term in expansion_terms),
        sum(indexed_query.values()),
    )
    weights = {
        term: expansion.original_query_weight * weight / query_total
        for term, weight in indexed_query.items()
    }
    for term in expansion_terms:
        weights[term] = (
            weights.get(term, 0.0)
            + (1 - expansion.original_query_weight) * relevance[term] / relevance_total
        )
    if not expansion.weighted_terms:
        return dict.fromkeys(weights, 1.0)
    max_weight = max(weights.values())
    return {term: weight / max_weight for term, weight in weights.items() if weight > 0}


def _compute_relevance_model(index: TermIndex, feedback: Hits, expansion: RM3) -> dict[str, float]:
    """Compute r(t) (see `expand_query`) for all terms of the feedback documents."""
    scores = feedback.scores
    weights = (
        np.exp(scores - scores.max())
        if expansion.document_weighting == "score"
        else np.ones(len(scores))
    )
    relevance: dict[str, float] = {}
    for document, weight in zip(
        feedback.documents.tolist(), (weights / weights.sum()).tolist(), strict=True
    ):
        terms, tf = index.get_document_terms(document)
        for term, value in zip(
            terms, (tf / index.lengths[document] * weight).tolist(), strict=True
        ):
            relevance[term] = relevance.get(term, 0.0) + value
    return relevance
