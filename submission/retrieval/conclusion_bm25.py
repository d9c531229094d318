"""BM25 over unique normalised conclusions, whose premises are the candidates (Entezari 2020, 4.3)."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from rank_bm25 import BM25Okapi

from submission.errors import short
from submission.progress import progress
from submission.rankings import of_rows
from submission.retrieval.top_k import top_k
from submission.storage.artifact_store import Kept
from submission.text.normalisation import normalise

log = logging.getLogger(__name__)

CONCLUSIONS = 100  # retrieved per topic, each with all its premises
K1, B, EPSILON = 1.5, 0.75, 0.25  # rank-bm25's defaults
POSTING = np.dtype([("conclusion", np.int32), ("weight", np.float64)])


class ConclusionIndex:
    """Inverted index over a collection's unique normalised conclusions with BM25 weights (k1 1.5, b 0.75, epsilon 0.25).

    Each posting stores a term's full contribution to a conclusion's score, so that a query reads only the postings of
    its terms. Scores equal BM25Okapi.get_scores bit for bit.
    """

    def __init__(
        self,
        conclusions: list[str],
        docnos: list[list[str]],
        length: float,
        terms: list[str],
        idf: np.ndarray,
        offsets: np.ndarray,
        postings: np.ndarray,
    ) -> None:
        """Create an index from its parts; use `of` for a collection.

        Args:
            conclusions: normalised, in ascending order.
            docnos: each conclusion's docnos, ascending.
            length: mean number of terms per conclusion.
            terms: all distinct terms.
            idf: (terms,) float64.
            offsets: (terms + 1,) int64, start of each term's postings.
            postings: (postings,) of POSTING, sorted by term, then conclusion.
        """
        self.conclusions, self.docnos, self._length = conclusions, docnos, length
        self._terms, self._idf, self._offsets, self._postings = terms, idf, offsets, postings
        self._numbers = {term: index for index, term in enumerate(terms)}

    @classmethod
    def of(cls, collection: pd.DataFrame) -> ConclusionIndex:
        """Index a collection with columns `docno conclusion`."""
        normalised = collection["conclusion"].map({text: normalise(text) for text in collection["conclusion"].unique()})
        docnos_by_conclusion: dict[str, list[str]] = {}
        for conclusion, docno in zip(normalised, collection["docno"], strict=True):
            docnos_by_conclusion.setdefault(conclusion, []).append(docno)
        conclusions = sorted(docnos_by_conclusion)
        # Intern terms to keep the statistics of 66,000 conclusions small.
        tokenised = [[sys.intern(term) for term in conclusion.split()] for conclusion in conclusions]
        bm25 = BM25Okapi(tokenised, k1=K1, b=B, epsilon=EPSILON)
        terms, idf = list(bm25.idf), np.array(list(bm25.idf.values()))
        if not (idf > 0).any():  # with one or two conclusions all idf values are ≤ 0: use equal weights
            idf[:] = 1.0
        offsets, postings = _postings(bm25, {term: index for index, term in enumerate(terms)}, idf)
        docnos = [sorted(docnos_by_conclusion[conclusion]) for conclusion in conclusions]
        return cls(conclusions, docnos, bm25.avgdl, terms, idf, offsets, postings)

    def shares(self, query: str, conclusion: str) -> list[tuple[str, float]]:
        """Compute each query term's contribution to the score of any conclusion, indexed or not."""
        terms = normalise(conclusion).split()
        counts = Counter(terms)
        contributions = []
        for term in normalise(query).split():
            matches = counts[term] and term in self._numbers
            weight = _weight(self._idf[self._numbers[term]], counts[term], len(terms), self._length) if matches else 0.0
            contributions.append((term, float(weight)))
        return contributions

    def scores(self, query: str) -> np.ndarray:
        """Score all conclusions (conclusions,) float64 for a raw query."""
        scores = np.zeros(len(self.conclusions))
        for term in normalise(query).split():
            postings = self._of_term(term)
            scores[postings["conclusion"]] += postings["weight"]
        return scores

    def best(self, query: str) -> list[tuple[int, float]]:
        """Return at most 100 (conclusion index, score > 0) by descending score, then by conclusion."""
        scores = self.scores(query)
        matching = np.flatnonzero(scores > 0)
        order = matching[top_k(scores[matching], CONCLUSIONS)]  # ties go to the first, in sorted order
        return list(zip(order.tolist(), scores[order].tolist(), strict=True))

    def knows(self, query: str) -> bool:
        """Return whether any conclusion contains a query term."""
        return any(term in self._numbers for term in normalise(query).split())

    def dumps(self) -> bytes:
        """Serialise the index."""
        arrays = self._idf.tobytes(), self._offsets.tobytes(), self._postings.tobytes()
        return msgspec.msgpack.encode((self.conclusions, self.docnos, self._length, self._terms, *arrays))

    @classmethod
    def loads(cls, data: bytes) -> ConclusionIndex:
        """Deserialise an index. Raises msgspec.MsgspecError, ValueError."""
        layout = tuple[list[str], list[list[str]], float, list[str], bytes, bytes, bytes]
        conclusions, docnos, length, terms, idf, offsets, postings = msgspec.msgpack.decode(data, type=layout)
        arrays = np.frombuffer(idf, np.float64), np.frombuffer(offsets, np.int64), np.frombuffer(postings, POSTING)
        return cls(conclusions, docnos, length, terms, *arrays)

    def _of_term(self, word: str) -> np.ndarray:
        term_id = self._numbers.get(word)
        return self._postings[:0] if term_id is None else self._postings[self._offsets[term_id] : self._offsets[term_id + 1]]


def _postings(bm25: BM25Okapi, numbers: dict[str, int], idf: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Build the offsets and postings of all terms."""
    conclusion_ids = np.repeat(np.arange(len(bm25.doc_freqs)), [len(frequencies) for frequencies in bm25.doc_freqs])
    term_ids = np.array([numbers[term] for frequencies in bm25.doc_freqs for term in frequencies], dtype=np.int64)
    frequency = np.array([count for frequencies in bm25.doc_freqs for count in frequencies.values()], dtype=np.int64)
    postings = np.empty(len(term_ids), dtype=POSTING)
    weights = _weight(idf[term_ids], frequency, np.array(bm25.doc_len)[conclusion_ids], bm25.avgdl)
    postings["conclusion"], postings["weight"] = conclusion_ids, weights
    offsets = np.concatenate([[0], np.bincount(term_ids, minlength=len(numbers)).cumsum()]).astype(np.int64)
    return offsets, postings[np.argsort(term_ids, kind="stable")]


def _weight(idf: Any, frequency: Any, length: Any, mean: float) -> Any:
    """Compute a term's BM25 weight with BM25Okapi's formula and order of operations; scalars or arrays."""
    return idf * (frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * length / mean)))


def conclusion_index(conclusions: Callable[[], pd.DataFrame], kept: Kept) -> ConclusionIndex:
    """Load the index of a collection `docno conclusion` from the cache, or build it; its key must cover the collection."""
    return ConclusionIndex.loads(kept.content("conclusions.msgpack", lambda: ConclusionIndex.of(conclusions()).dumps()))


def retrieve(topics: pd.DataFrame, index: ConclusionIndex) -> pd.DataFrame:
    """Return the rankings of all topics: premises of the top conclusions in that order, then by docno.

    A topic without a matching conclusion gets an empty ranking and a warning.
    """
    log.info("conclusion retrieval: %d unique normalised conclusions", len(index.conclusions))
    rows: list[tuple[str, str, int, float]] = []
    for qid, query in progress(list(zip(topics["qid"], topics["query"], strict=True)), "conclusion retrieval", "topics"):
        hits = [(docno, score) for conclusion, score in index.best(query) for docno in index.docnos[conclusion]]
        if not hits:
            known = index.knows(query)
            reason = "no matching conclusion scores above 0" if known else "no conclusion contains a query term"
            log.warning("topic %s (%s): %s; its ranking is empty", qid, short(query), reason)
        rows += [(qid, docno, rank, score) for rank, (docno, score) in enumerate(hits, 1)]
    return of_rows(rows)
