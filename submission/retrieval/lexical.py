"""Ranking by a term index: BM25 or Dirichlet over weighted terms, and RM3, which finds more terms in the first documents.

A query is a list of distinct terms with weights; its own are how often they occur, divided by the largest such number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import numpy as np
import torch
from msgspec import Meta

from submission.progress import progress
from submission.retrieval.ranking import top_k
from submission.retrieval.terms import Statistics, TermIndex
from submission.retrieval.weighting import bm25, bm25_of_query, dirichlet, dirichlet_length

LARGE = 1e9  # no parameter is
NotNegative = Annotated[float, Meta(ge=0, lt=LARGE)]
Share = Annotated[float, Meta(ge=0, le=1)]

Query = dict[str, float]  # terms and their weights, in the order in which they are added up


class BM25(msgspec.Struct, frozen=True, tag="bm25", tag_field="name", forbid_unknown_fields=True):
    """BM25 as Terrier computes it."""

    k1: NotNegative = 1.2
    b: Share = 0.75
    k3: NotNegative = 8.0

    def added(self, tf: np.ndarray, dl: np.ndarray, weight: float, of: Statistics, number: int) -> np.ndarray:
        """Compute the weights of a term, by its number in the statistics, in documents that contain it."""
        added = bm25(tf, dl, of.df[number], of.documents, of.tokens, self.k1, self.b)
        return np.asarray(added * bm25_of_query(weight, self.k3))

    def always(self, dl: np.ndarray, weights: Iterable[float]) -> np.ndarray | None:
        """Compute a document's query-independent share; None where there is none."""
        return None


class Dirichlet(msgspec.Struct, frozen=True, tag="dirichlet", tag_field="name", forbid_unknown_fields=True):
    """A language model smoothed by Dirichlet's prior (Zhai and Lafferty 2004)."""

    mu: Annotated[float, Meta(gt=0, lt=LARGE)] = 2500.0
    length: Literal["matched", "query"] = "matched"  # normalisation per matched term (Terrier) or per query term (textbook)

    def added(self, tf: np.ndarray, dl: np.ndarray, weight: float, of: Statistics, number: int) -> np.ndarray:
        """Compute the weights of a term, by its number in the statistics, in documents that contain it."""
        added = dirichlet(tf, of.cf[number], of.tokens, self.mu)
        return np.asarray(weight * (added + dirichlet_length(dl, self.mu) if self.length == "matched" else added))

    def always(self, dl: np.ndarray, weights: Iterable[float]) -> np.ndarray | None:
        """Compute a document's query-independent share; None where there is none."""
        return None if self.length == "matched" else np.asarray(sum(weights) * dirichlet_length(dl, self.mu))


Model = BM25 | Dirichlet


class RM3(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Expansion by the terms of the first documents (Abdul-Jaleel et al. 2004; Hollatz 2022, 2.5.3), as terrier-prf has it."""

    documents: Annotated[int, Meta(ge=1, le=1000)] = 10
    terms: Annotated[int, Meta(ge=0, le=1000)] = 10
    original: Share = 0.5  # λ: the share of the query's own terms
    feedback: Literal["score", "equal"] = "score"  # how the documents count: by their likelihood, or alike
    weighted: bool = True  # whether the second search uses the terms' weights
    least_df: Annotated[int, Meta(ge=0)] = 2
    most_df: NotNegative = 0.1  # of all documents; a term as frequent as that is no candidate


@dataclass(frozen=True)
class Found:
    """Documents by their numbers, the best first, and their scores."""

    documents: np.ndarray
    scores: np.ndarray


def query_of(terms: Iterable[str]) -> Query:
    """A query of the terms of a text."""
    counts = Counter(terms)
    return {term: count / max(counts.values()) for term, count in counts.items()}


def search(index: TermIndex, query: Query, model: Model, depth: int, statistics: Statistics | None = None) -> Found:
    """The best documents that have a term of a query; of equal ones the first.

    Args:
        index: of the documents.
        query: terms that no document has add nothing.
        model: how a term counts.
        depth: how many documents at most.
        statistics: of the query's terms in their order; None: the index's own. A shard is given those of the whole.
    """
    of = statistics or index.statistics(list(query))
    scores = np.zeros(len(index.lengths))
    matched = np.zeros(len(index.lengths), dtype=bool)
    for number, (term, weight) in enumerate(query.items()):
        documents, tf = index.postings(term)
        if len(documents):
            places = documents.astype(np.intp)  # once, and not in each of the three that follow
            scores[places] += model.added(tf, index.lengths.take(places), weight, of, number)
            matched[places] = True
    found = np.flatnonzero(matched)
    values = scores[found]
    always = model.always(index.lengths[found], query.values())
    if always is not None:
        values += always
    order = top_k(values, depth)
    return Found(found[order], values[order])


def searched(index: TermIndex, texts: Sequence[str], model: Model, expansion: RM3 | None, depth: int, what: str) -> list[Found]:
    """The best documents for each of some titles; several at a time, as most of the work is numpy's."""
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        found = pool.map(lambda text: search(index, asked(index, text, model, expansion), model, depth), texts)
        return [next(found) for _ in progress(texts, what, "topics")]


def asked(index: TermIndex, text: str, model: Model, expansion: RM3 | None) -> Query:
    """The terms that a title is searched by: its own, and those of its expansion."""
    own = query_of(index.read(text))
    return own if expansion is None else expanded(index, own, model, expansion)


def added(query: Query, model: Model, of: Statistics, tf: np.ndarray, dl: np.ndarray) -> np.ndarray:
    """Compute the share of each term in the scores of documents, (terms, documents); the sums over terms are the scores.

    A document without any of the terms gets 0, as an empty sum; a search does not list it.

    Args:
        query: the terms.
        model: how a term counts.
        of: the collection's statistics of the terms, in their order.
        tf: (terms, documents), 0 where a document does not have a term.
        dl: (documents,).
    """
    known = np.where(of.df[:, None] > 0, tf, 0)  # a term that only documents outside of the collection have says nothing
    found, matched = np.zeros(tf.shape), known.any(axis=0)
    for number, (frequency, weight) in enumerate(zip(known, query.values(), strict=True)):
        has = frequency > 0
        if has.any():
            found[number, has] = model.added(frequency[has], dl[has], weight, of, number)
        always = model.always(dl[matched], [weight])
        if always is not None:
            found[number, matched] += always
    return found


def expanded(index: TermIndex, query: Query, model: Model, expansion: RM3) -> Query:
    """The query with the terms of its first documents.

    r(t) = Σ p(d) tf / dl over the feedback documents d, where p(d) is exp of their scores brought to a sum of 1, or alike. The
    terms with the largest r (of equal ones the first) are kept and brought to a sum of 1. w(t) = λ q(t) / Σ q + (1 - λ) r(t),
    divided by the largest.
    """
    known = {term: weight for term, weight in query.items() if term in index.numbers}
    first = search(index, known, model, expansion.documents)
    if not len(first.documents):
        return query
    odds = np.exp(first.scores - first.scores.max()) if expansion.feedback == "score" else np.ones(len(first.scores))
    relevance: dict[str, float] = {}
    for number, share in zip(first.documents.tolist(), (odds / odds.sum()).tolist(), strict=True):
        terms, tf = index.document(number)
        for term, value in zip(terms, (tf / index.lengths[number] * share).tolist(), strict=True):
            relevance[term] = relevance.get(term, 0.0) + value
    df = dict(zip(relevance, index.statistics(list(relevance)).df.tolist(), strict=True))
    most = int(expansion.most_df * len(index.lengths))
    candidates = [term for term in relevance if expansion.least_df <= df[term] < most]
    kept = sorted(candidates, key=lambda term: (-relevance[term], term))[: expansion.terms]
    total, own = sum(relevance[term] for term in kept), sum(known.values())
    if not kept:
        return known
    weights = {term: expansion.original * weight / own for term, weight in known.items()}
    for term in kept:
        weights[term] = weights.get(term, 0.0) + (1 - expansion.original) * relevance[term] / total
    if not expansion.weighted:
        return dict.fromkeys(weights, 1.0)
    largest = max(weights.values())
    return {term: weight / largest for term, weight in weights.items() if weight > 0}
