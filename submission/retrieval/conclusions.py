"""BM25 over the unique normalised conclusions; the premises attached to the best ones are the candidates (thesis 4.3)."""

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

from submission import lists
from submission.disk.kept import Kept
from submission.errors import short
from submission.progress import progress
from submission.retrieval.ranking import top_k
from submission.text.normalise import normalise

log = logging.getLogger(__name__)

CONCLUSIONS = 100  # retrieved a topic, each with all its premises
K1, B, EPSILON = 1.5, 0.75, 0.25  # rank-bm25's own
POSTING = np.dtype([("conclusion", np.int32), ("weight", np.float64)])


class ConclusionIndex:
    """The unique normalised conclusions of a collection under BM25 (k1 1.5, b 0.75, epsilon 0.25), term by term.

    What a term adds to the score of a conclusion depends on nothing else, so rank-bm25's statistics are turned into one such
    number a posting; a query reads the postings of its own terms and no conclusion that has none of them. The sums are those of
    BM25Okapi.get_scores to the last bit.
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
        """From its parts; `of` makes them.

        Args:
            conclusions: normalised, ascending.
            docnos: of each conclusion's arguments, ascending.
            length: mean number of terms of a conclusion.
            terms: of all conclusions.
            idf: (terms,) float64.
            offsets: (terms + 1,) int64, where the postings of a term begin.
            postings: (postings,) of POSTING, by term, then conclusion.
        """
        self.conclusions, self.docnos, self._length = conclusions, docnos, length
        self._terms, self._idf, self._offsets, self._postings = terms, idf, offsets, postings
        self._numbers = {term: number for number, term in enumerate(terms)}

    @classmethod
    def of(cls, collection: pd.DataFrame) -> ConclusionIndex:
        """Index a collection with columns `docno conclusion`."""
        normalised = collection["conclusion"].map({text: normalise(text) for text in collection["conclusion"].unique()})
        documents: dict[str, list[str]] = {}
        for conclusion, docno in zip(normalised, collection["docno"], strict=True):
            documents.setdefault(conclusion, []).append(docno)
        conclusions = sorted(documents)
        # Interned terms are one object each: the statistics of 66,000 conclusions stay small.
        texts = [[sys.intern(term) for term in conclusion.split()] for conclusion in conclusions]
        bm25 = BM25Okapi(texts, k1=K1, b=B, epsilon=EPSILON)
        terms, idf = list(bm25.idf), np.array(list(bm25.idf.values()))
        if not (idf > 0).any():  # one or two conclusions: rank-bm25 gives no term a weight above 0, so all weigh the same
            idf[:] = 1.0
        offsets, postings = _postings(bm25, {term: number for number, term in enumerate(terms)}, idf)
        docnos = [sorted(documents[conclusion]) for conclusion in conclusions]
        return cls(conclusions, docnos, bm25.avgdl, terms, idf, offsets, postings)

    def shares(self, query: str, conclusion: str) -> list[tuple[str, float]]:
        """Compute the share of each query word in the score of any conclusion, indexed or not."""
        words = normalise(conclusion).split()
        counts = Counter(words)
        shares = []
        for word in normalise(query).split():
            known = counts[word] and word in self._numbers
            share = _weight(self._idf[self._numbers[word]], counts[word], len(words), self._length) if known else 0.0
            shares.append((word, float(share)))
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
        order = found[top_k(scores[found], CONCLUSIONS)]  # of equal scores the first: the conclusions are sorted already
        return list(zip(order.tolist(), scores[order].tolist(), strict=True))

    def knows(self, query: str) -> bool:
        """Tell whether a conclusion shares a word with a query."""
        return any(word in self._numbers for word in normalise(query).split())

    def dumps(self) -> bytes:
        """The index as bytes, for `loads`."""
        arrays = self._idf.tobytes(), self._offsets.tobytes(), self._postings.tobytes()
        return msgspec.msgpack.encode((self.conclusions, self.docnos, self._length, self._terms, *arrays))

    @classmethod
    def loads(cls, data: bytes) -> ConclusionIndex:
        """The index that `dumps` wrote. Raises msgspec.MsgspecError, ValueError."""
        parts = tuple[list[str], list[list[str]], float, list[str], bytes, bytes, bytes]
        conclusions, docnos, length, terms, idf, offsets, postings = msgspec.msgpack.decode(data, type=parts)
        arrays = np.frombuffer(idf, np.float64), np.frombuffer(offsets, np.int64), np.frombuffer(postings, POSTING)
        return cls(conclusions, docnos, length, terms, *arrays)

    def _of_term(self, word: str) -> np.ndarray:
        number = self._numbers.get(word)
        return self._postings[:0] if number is None else self._postings[self._offsets[number] : self._offsets[number + 1]]


def _postings(bm25: BM25Okapi, numbers: dict[str, int], idf: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and postings of the terms with those numbers."""
    owners = np.repeat(np.arange(len(bm25.doc_freqs)), [len(frequencies) for frequencies in bm25.doc_freqs])
    terms = np.array([numbers[term] for frequencies in bm25.doc_freqs for term in frequencies], dtype=np.int64)
    frequency = np.array([count for frequencies in bm25.doc_freqs for count in frequencies.values()], dtype=np.int64)
    postings = np.empty(len(terms), dtype=POSTING)
    weights = _weight(idf[terms], frequency, np.array(bm25.doc_len)[owners], bm25.avgdl)
    postings["conclusion"], postings["weight"] = owners, weights
    offsets = np.concatenate([[0], np.bincount(terms, minlength=len(numbers)).cumsum()]).astype(np.int64)
    return offsets, postings[np.argsort(terms, kind="stable")]


def _weight(idf: Any, frequency: Any, length: Any, mean: float) -> Any:
    """Compute a term's weight in a conclusion by BM25Okapi's formula, in its order of operations; scalars or arrays."""
    return idf * (frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * length / mean)))


def conclusion_index(conclusions: Callable[[], pd.DataFrame], kept: Kept) -> ConclusionIndex:
    """The index of a collection `docno conclusion`, made unless it is kept; the place must be of that very collection."""
    return ConclusionIndex.loads(kept.content("conclusions.msgpack", lambda: ConclusionIndex.of(conclusions()).dumps()))


def retrieve(topics: pd.DataFrame, index: ConclusionIndex) -> pd.DataFrame:
    """Lists of all topics: the best conclusions' premises, in that order, then by docno.

    A topic none of whose words occurs in any conclusion gets no documents, and a warning.
    """
    log.info("retrieval: %d unique normalised conclusions", len(index.conclusions))
    rows: list[tuple[str, str, int, float]] = []
    for qid, query in progress(list(zip(topics["qid"], topics["query"], strict=True)), "retrieval", "topics"):
        found = [(docno, score) for number, score in index.best(query) for docno in index.docnos[number]]
        if not found:
            why = (
                "no conclusion that shares a word with it scores above 0"
                if index.knows(query)
                else "no conclusion shares a word"
            )
            log.warning("topic %s (%s): %s; its list is empty", qid, short(query), why)
        rows += [(qid, docno, rank, score) for rank, (docno, score) in enumerate(found, 1)]
    return lists.of_rows(rows)
