"""BM25 over the unique normalised conclusions; the premises attached to the best ones are the candidates (thesis 4.3)."""

from __future__ import annotations

import logging
import sys

import numpy as np
import pandas as pd
from rank_bm25 import BM25Okapi

from submission.progress import progress
from submission.text import normalise

log = logging.getLogger(__name__)

CONCLUSIONS = 100  # retrieved a topic, each with all its premises


class ConclusionIndex:
    """The unique normalised conclusions of a collection under rank-bm25's BM25Okapi (k1 1.5, b 0.75, epsilon 0.25)."""

    def __init__(self, corpus: pd.DataFrame) -> None:
        """Index a collection with columns `docno conclusion`."""
        normalised = corpus["conclusion"].map({text: normalise(text) for text in corpus["conclusion"].unique()})
        documents: dict[str, list[str]] = {}
        for conclusion, docno in zip(normalised, corpus["docno"], strict=True):
            documents.setdefault(conclusion, []).append(docno)
        self.conclusions = sorted(documents)
        self.docnos = [sorted(documents[conclusion]) for conclusion in self.conclusions]
        # Interned terms are one object each: the statistics of 66,000 conclusions stay small.
        self.bm25 = BM25Okapi([[sys.intern(term) for term in conclusion.split()] for conclusion in self.conclusions])

    def shares(self, query: str, conclusion: str) -> list[tuple[str, float]]:
        """What each word of a query adds to the score of a conclusion of the index, both as written."""
        number = self.conclusions.index(normalise(conclusion))
        return [(word, float(self.bm25.get_batch_scores([word], [number])[0])) for word in normalise(query).split()]

    def best(self, query: str) -> list[tuple[int, float]]:
        """At most 100 (conclusion number, score > 0), by score descending, then normalised conclusion ascending."""
        scores = self.bm25.get_scores(normalise(query).split())
        order = np.argsort(-scores, kind="stable")[:CONCLUSIONS]  # stable: the conclusions are sorted already
        return [(int(number), float(scores[number])) for number in order if scores[number] > 0]


def candidates(topics: pd.DataFrame, corpus: pd.DataFrame) -> pd.DataFrame:
    """Candidates `qid docno rank score` of all topics: the best conclusions' premises, in that order, then by docno.

    A topic none of whose words occurs in any conclusion gets no candidates, and a warning.
    """
    index = ConclusionIndex(corpus)
    log.info("retrieval: %d unique normalised conclusions", len(index.conclusions))
    rows: list[tuple[str, str, int, float]] = []
    for qid, query in progress(list(zip(topics["qid"], topics["query"], strict=True)), "retrieval", "topics"):
        found = [(docno, score) for number, score in index.best(query) for docno in index.docnos[number]]
        if not found:
            log.warning("topic %s (%s): no conclusion shares a word with it; its list is empty", qid, query)
        rows += [(qid, docno, rank, score) for rank, (docno, score) in enumerate(found, 1)]
    return pd.DataFrame(rows, columns=["qid", "docno", "rank", "score"]).astype({"rank": int, "score": float})
