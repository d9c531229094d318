"""Retrieve premises by BM25 over unique normalised conclusions (Entezari 2020, section 4.3)."""

import logging
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import msgspec
import numpy as np
import pandas as pd
from rank_bm25 import BM25Okapi

from aragorn.cache import Cache
from aragorn.errors import abbreviate
from aragorn.progress import track
from aragorn.rankings import build_rankings
from aragorn.retrieval.sparse_matrix import select_top_k
from aragorn.text.normalisation import normalise

VERSION = 1  # of the index and its scores

log = logging.getLogger(__name__)

MAX_CONCLUSIONS = 100  # conclusions per topic; all their premises are ranked
K1, B, EPSILON = 1.5, 0.75, 0.25  # rank-bm25's defaults
POSTING_DTYPE = np.dtype([("conclusion", np.int32), ("weight", np.float64)])


@dataclass(frozen=True, eq=False)
class ConclusionIndex:
    """Inverted index with BM25 weights over a collection's unique normalised conclusions.

    Each posting stores a term's full contribution to a conclusion's score, so that a query reads
    only the postings of its terms. Scores equal BM25Okapi.get_scores bit for bit, unless no idf is
    positive (see `build`).
    """

    conclusions: list[str]  # normalised, ascending
    docnos: list[list[str]]  # documents of each conclusion, ascending
    mean_length: float  # mean number of terms per conclusion
    terms: list[str]  # distinct terms of the conclusions
    idf: np.ndarray  # (terms,) float64
    offsets: np.ndarray  # (terms + 1,) int64, start of each term's postings
    postings: np.ndarray  # (postings,) of POSTING_DTYPE, by term, then conclusion

    @cached_property
    def term_ids(self) -> dict[str, int]:
        """Position of each term in `terms`."""
        return {term: index for index, term in enumerate(self.terms)}

    @classmethod
    def build(cls, collection: pd.DataFrame) -> Self:
        """Build the index of a collection `docno conclusion`."""
        normal_forms = {text: normalise(text) for text in collection["conclusion"].unique()}
        docnos_by_conclusion: dict[str, list[str]] = {}
        for conclusion, docno in zip(
            collection["conclusion"].map(normal_forms), collection["docno"], strict=True
        ):
            docnos_by_conclusion.setdefault(conclusion, []).append(docno)
        conclusions = sorted(docnos_by_conclusion)
        # Intern terms to save memory: args.me has 66,000 unique conclusions.
        tokenised_conclusions = [
            [sys.intern(term) for term in conclusion.split()] for conclusion in conclusions
        ]
        bm25 = BM25Okapi(tokenised_conclusions, k1=K1, b=B, epsilon=EPSILON)
        terms, idf = list(bm25.idf), np.array(list(bm25.idf.values()))
        # with one or two conclusions, no idf is positive: use equal weights
        if not (idf > 0).any():
            idf[:] = 1.0
        docnos = [sorted(docnos_by_conclusion[conclusion]) for conclusion in conclusions]
        return cls(conclusions, docnos, bm25.avgdl, terms, idf, *_build_postings(bm25, terms, idf))

    def compute_term_contributions(self, query: str, conclusion: str) -> list[tuple[str, float]]:
        """Return each query term with its contribution to the score of a conclusion, which need not
        be indexed."""
        counts = Counter(normalise(conclusion).split())
        contributions = []
        for term in normalise(query).split():
            contribution = 0.0
            if counts[term] and term in self.term_ids:
                idf = self.idf[self.term_ids[term]]
                contribution = float(
                    _compute_bm25_weight(idf, counts[term], counts.total(), self.mean_length)
                )
            contributions.append((term, contribution))
        return contributions

    def score_all(self, query: str) -> np.ndarray:
        """Compute the scores (conclusions,) float64 of all conclusions for a query, which need not
        be normalised."""
        scores = np.zeros(len(self.conclusions))
        for term in normalise(query).split():
            if term in self.term_ids:
                postings = self.postings[slice(*self.offsets[self.term_ids[term] :][:2])]
                scores[postings["conclusion"]] += postings["weight"]
        return scores

    def find_top_conclusions(self, query: str) -> list[tuple[int, float]]:
        """Return positions and scores of the top `MAX_CONCLUSIONS` conclusions that score above 0;
        ties go to the first."""
        scores = self.score_all(query)
        matching_rows = np.flatnonzero(scores > 0)
        order = matching_rows[select_top_k(scores[matching_rows], MAX_CONCLUSIONS)]
        return list(zip(order.tolist(), scores[order].tolist(), strict=True))

    def to_bytes(self) -> bytes:
        """Serialise the index for `from_bytes`."""
        arrays = self.idf.tobytes(), self.offsets.tobytes(), self.postings.tobytes()
        return msgspec.msgpack.encode(
            (self.conclusions, self.docnos, self.mean_length, self.terms, *arrays)
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Deserialise an index from the result of `to_bytes`.

        Raises:
            msgspec.MsgspecError, ValueError: If the data is not a serialised index.
        """
        layout = tuple[list[str], list[list[str]], float, list[str], bytes, bytes, bytes]
        conclusions, docnos, length, terms, idf, offsets, postings = msgspec.msgpack.decode(
            data, type=layout
        )
        arrays = (
            np.frombuffer(idf, np.float64),
            np.frombuffer(offsets, np.int64),
            np.frombuffer(postings, POSTING_DTYPE),
        )
        return cls(conclusions, docnos, length, terms, *arrays)


def _build_postings(
    bm25: BM25Okapi, terms: list[str], idf: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Build the fields `offsets` and `postings` of a ConclusionIndex."""
    id_by_term = {term: index for index, term in enumerate(terms)}
    conclusion_ids = np.repeat(
        np.arange(len(bm25.doc_freqs)), [len(frequencies) for frequencies in bm25.doc_freqs]
    )
    term_ids = np.array(
        [id_by_term[term] for frequencies in bm25.doc_freqs for term in frequencies], dtype=np.int64
    )
    frequency = np.array(
        [count for frequencies in bm25.doc_freqs for count in frequencies.values()], dtype=np.int64
    )
    postings = np.empty(len(term_ids), dtype=POSTING_DTYPE)
    weights = _compute_bm25_weight(
        idf[term_ids], frequency, np.array(bm25.doc_len)[conclusion_ids], bm25.avgdl
    )
    postings["conclusion"], postings["weight"] = conclusion_ids, weights
    offsets = np.concatenate([[0], np.bincount(term_ids, minlength=len(terms)).cumsum()]).astype(
        np.int64
    )
    return offsets, postings[np.argsort(term_ids, kind="stable")]


def _compute_bm25_weight(idf: Any, frequency: Any, length: Any, mean_length: float) -> Any:
    """Compute a term's BM25 weight with BM25Okapi's formula and order of operations, for scalars or
    arrays."""
    return idf * (frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * length / mean_length)))


def load_or_build_conclusion_index(
    load_conclusions: Callable[[], pd.DataFrame], cache: Cache, key: str
) -> ConclusionIndex:
    """Load the index from the cache, or build it from the collection `docno conclusion` that
    `load_conclusions` returns; `key` must depend on the collection."""
    data = cache.get_or_build(
        "conclusions", key, lambda: ConclusionIndex.build(load_conclusions()).to_bytes()
    )
    return ConclusionIndex.from_bytes(data)


def retrieve(topics: pd.DataFrame, index: ConclusionIndex) -> pd.DataFrame:
    """Rank all premises of each topic's top conclusions, best conclusion first, then by docno;
    return `qid docno rank score`.

    A premise has the score of its conclusion. A topic without a matching conclusion gets an empty
    ranking and a warning.
    """
    log.info("conclusion retrieval: %d unique normalised conclusions", len(index.conclusions))
    rows: list[tuple[str, str, int, float]] = []
    for qid, query in track(
        list(zip(topics["qid"], topics["query"], strict=True)), "conclusion retrieval", "topics"
    ):
        hits = [
            (docno, score)
            for conclusion, score in index.find_top_conclusions(query)
            for docno in index.docnos[conclusion]
        ]
        if not hits:
            is_match = not index.term_ids.keys().isdisjoint(normalise(query).split())
            reason = (
                "no matching conclusion scores above 0"
                if is_match
                else "no conclusion contains a query term"
            )
            log.warning("topic %s (%s): %s; its ranking is empty", qid, abbreviate(query), reason)
        rows += [(qid, docno, rank, score) for rank, (docno, score) in enumerate(hits, 1)]
    return build_rankings(rows)
