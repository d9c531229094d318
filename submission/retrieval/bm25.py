"""BM25 over the unique normalised conclusions; the premises attached to the best ones are the candidates (thesis 4.3)."""

from __future__ import annotations

import logging
import sys

import msgspec
import numpy as np
import pandas as pd
from rank_bm25 import BM25Okapi

from submission.progress import progress
from submission.text import normalise

log = logging.getLogger(__name__)

CONCLUSIONS = 100  # retrieved a topic, each with all its premises
POSTING = np.dtype([("conclusion", np.int32), ("weight", np.float64)])


class ConclusionIndex:
    """The unique normalised conclusions of a collection under BM25 (k1 1.5, b 0.75, epsilon 0.25), term by term.

    What a term adds to the score of a conclusion depends on nothing else, so rank-bm25's statistics are turned into one such
    number a posting; a query reads the postings of its own terms and no conclusion that has none of them. The sums are those of
    BM25Okapi.get_scores to the last bit.
    """

    def __init__(
        self, conclusions: list[str], docnos: list[list[str]], terms: list[str], offsets: np.ndarray, postings: np.ndarray
    ) -> None:
        """See `of`.

        Args:
            conclusions: normalised, ascending.
            docnos: of each conclusion's arguments, ascending.
            terms: of all conclusions.
            offsets: (terms + 1,) int64, where the postings of a term begin.
            postings: (postings,) of POSTING, by term, then conclusion.
        """
        self.conclusions, self.docnos = conclusions, docnos
        self._terms, self._offsets, self._postings = terms, offsets, postings
        self._numbers = {term: number for number, term in enumerate(terms)}

    @classmethod
    def of(cls, corpus: pd.DataFrame) -> ConclusionIndex:
        """Index a collection with columns `docno conclusion`."""
        normalised = corpus["conclusion"].map({text: normalise(text) for text in corpus["conclusion"].unique()})
        documents: dict[str, list[str]] = {}
        for conclusion, docno in zip(normalised, corpus["docno"], strict=True):
            documents.setdefault(conclusion, []).append(docno)
        conclusions = sorted(documents)
        # Interned terms are one object each: the statistics of 66,000 conclusions stay small.
        bm25 = BM25Okapi([[sys.intern(term) for term in conclusion.split()] for conclusion in conclusions])
        terms = list(bm25.idf)
        offsets, postings = _postings(bm25, {term: number for number, term in enumerate(terms)})
        return cls(conclusions, [sorted(documents[conclusion]) for conclusion in conclusions], terms, offsets, postings)

    def shares(self, query: str, conclusion: str) -> list[tuple[str, float]]:
        """What each word of a query adds to the score of a conclusion of the index, both as written."""
        number = self.conclusions.index(normalise(conclusion))
        shares = []
        for word in normalise(query).split():
            postings = self._of_term(word)
            shares.append((word, float(postings["weight"][postings["conclusion"] == number].sum())))
        return shares

    def scores(self, query: str) -> np.ndarray:
        """The scores (conclusions,) float64 of a query as written."""
        scores = np.zeros(len(self.conclusions))
        for word in normalise(query).split():
            postings = self._of_term(word)
            scores[postings["conclusion"]] += postings["weight"]
        return scores

    def best(self, query: str) -> list[tuple[int, float]]:
        """At most 100 (conclusion number, score > 0), by score descending, then normalised conclusion ascending."""
        scores = self.scores(query)
        found = np.flatnonzero(scores > 0)
        if len(found) > CONCLUSIONS:
            found = found[scores[found] >= np.partition(scores[found], -CONCLUSIONS)[-CONCLUSIONS]]
        order = found[np.argsort(-scores[found], kind="stable")[:CONCLUSIONS]]  # stable: the conclusions are sorted already
        return list(zip(order.tolist(), scores[order].tolist(), strict=True))

    def dumps(self) -> bytes:
        """What `loads` makes an equal index of."""
        arrays = self._offsets.tobytes(), self._postings.tobytes()
        return msgspec.msgpack.encode((self.conclusions, self.docnos, self._terms, *arrays))

    @classmethod
    def loads(cls, data: bytes) -> ConclusionIndex:
        """Read what `dumps` gave. Raises msgspec.MsgspecError, ValueError."""
        form = tuple[list[str], list[list[str]], list[str], bytes, bytes]
        conclusions, docnos, terms, offsets, postings = msgspec.msgpack.decode(data, type=form)
        return cls(conclusions, docnos, terms, np.frombuffer(offsets, np.int64), np.frombuffer(postings, POSTING))

    def _of_term(self, word: str) -> np.ndarray:
        number = self._numbers.get(word)
        return self._postings[:0] if number is None else self._postings[self._offsets[number] : self._offsets[number + 1]]


def _postings(bm25: BM25Okapi, numbers: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and postings of the terms with those numbers, the weights computed in the order of BM25Okapi's formula."""
    owners = np.repeat(np.arange(len(bm25.doc_freqs)), [len(frequencies) for frequencies in bm25.doc_freqs])
    terms = np.array([numbers[term] for frequencies in bm25.doc_freqs for term in frequencies], dtype=np.int64)
    frequency = np.array([count for frequencies in bm25.doc_freqs for count in frequencies.values()], dtype=np.int64)
    idf = np.array(list(bm25.idf.values()))[terms]
    length = np.array(bm25.doc_len)[owners]
    saturated = frequency * (bm25.k1 + 1) / (frequency + bm25.k1 * (1 - bm25.b + bm25.b * length / bm25.avgdl))
    postings = np.empty(len(terms), dtype=POSTING)
    postings["conclusion"], postings["weight"] = owners, idf * saturated
    offsets = np.concatenate([[0], np.bincount(terms, minlength=len(numbers)).cumsum()]).astype(np.int64)
    return offsets, postings[np.argsort(terms, kind="stable")]


def candidates(topics: pd.DataFrame, index: ConclusionIndex) -> pd.DataFrame:
    """Candidates `qid docno rank score` of all topics: the best conclusions' premises, in that order, then by docno.

    A topic none of whose words occurs in any conclusion gets no candidates, and a warning.
    """
    log.info("retrieval: %d unique normalised conclusions", len(index.conclusions))
    rows: list[tuple[str, str, int, float]] = []
    for qid, query in progress(list(zip(topics["qid"], topics["query"], strict=True)), "retrieval", "topics"):
        found = [(docno, score) for number, score in index.best(query) for docno in index.docnos[number]]
        if not found:
            log.warning("topic %s (%s): no conclusion shares a word with it; its list is empty", qid, query)
        rows += [(qid, docno, rank, score) for rank, (docno, score) in enumerate(found, 1)]
    return pd.DataFrame(rows, columns=["qid", "docno", "rank", "score"]).astype({"rank": int, "score": float})
