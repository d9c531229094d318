"""Retrieve premises by BM25 over unique normalised conclusions (Entezari 2020, section 4.3).

All premises of the top conclusions are returned; they are the candidates of the re-rankers.

conclusions.msgpack  conclusions with their documents, terms with their idf
weights.*            terms × conclusions, float64: contributions to scores (see `inverted`)
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

import msgspec
import numpy as np

from aragorn.errors import UsageError, abbreviate
from aragorn.explanation import Explanation, Row
from aragorn.index.inverted import SparseMatrix, TermCounter, Token, select_top_k, write_matrix
from aragorn.index.weighting import bm25
from aragorn.pipeline.retrieval import Retrieval, Stage
from aragorn.pipeline.session import Collection
from aragorn.progress import track
from aragorn.rankings import build_rankings
from aragorn.text.index_terms import END_OF_TEXT
from aragorn.text.normalisation import normalise
from aragorn.versions import describe_versions

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

VERSION = 1  # of the index and its scores
COMPUTES_WITH = ("aragorn.index.weighting",)

MAX_CONCLUSIONS = 100  # conclusions per topic; all their premises are ranked
# as in rank-bm25
K1 = 1.5
B = 0.75
EPSILON = 0.25


class _Conclusions(msgspec.Struct):
    """Content of conclusions.msgpack."""

    conclusions: list[str]  # normalised, ascending
    docnos: list[list[str]]  # documents of each conclusion, ascending
    mean_length: float  # mean number of terms per conclusion
    idf: dict[str, float]  # by term


class ConclusionIndex:
    """Inverted index with BM25 weights over a collection's unique normalised conclusions.

    Scores equal BM25Okapi.get_scores of rank-bm25 bit for bit, unless no idf is positive.
    """

    def __init__(self, directory: Path) -> None:
        """Open an index of `build_conclusion_index`; raise MsgspecError if it is damaged."""
        content = (directory / "conclusions.msgpack").read_bytes()
        data = msgspec.msgpack.decode(content, type=_Conclusions)
        self.conclusions = data.conclusions
        self.docnos = data.docnos
        self.idf = data.idf
        self._mean_length = data.mean_length
        self._rows = {term: row for row, term in enumerate(data.idf)}
        self._weights = SparseMatrix.open(directory, "weights", np.float64)

    @classmethod
    def build(cls, collection: pd.DataFrame) -> Self:
        """Build the index of a collection `docno conclusion` for this process only."""
        with TemporaryDirectory() as folder:
            build_conclusion_index(Path(folder), collection)
            return cls(Path(folder))

    def compute_term_contributions(self, query: str, conclusion: str) -> list[tuple[str, float]]:
        """Return each query term with its contribution for any conclusion."""
        counts = Counter(normalise(conclusion).split())
        length = counts.total()
        contributions = []
        for term in normalise(query).split():
            contribution = 0.0
            if counts[term] and term in self.idf:
                contribution = bm25(counts[term], length, self._mean_length, self.idf[term], K1, B)
            contributions.append((term, contribution))
        return contributions

    def score_all(self, query: str) -> np.ndarray:
        """Compute the scores (conclusions,) float64 of all conclusions for a raw query."""
        scores = np.zeros(len(self.conclusions))
        for term in normalise(query).split():
            if term in self._rows:
                columns, weights = self._weights.get_row(self._rows[term])
                scores[columns] += weights
        return scores

    def find_top_conclusions(self, query: str) -> list[tuple[int, float]]:
        """Return positions and scores of the top conclusions above 0; ties go to the first."""
        scores = self.score_all(query)
        matches = np.flatnonzero(scores > 0)
        order = matches[select_top_k(scores[matches], MAX_CONCLUSIONS)]
        return list(zip(order.tolist(), scores[order].tolist(), strict=True))


def build_conclusion_index(directory: Path, collection: pd.DataFrame) -> None:
    """Build the index of a collection `docno conclusion` in an existing directory."""
    # pandas would take texts as equal that differ after a null character only
    normal_forms = {text: normalise(text) for text in dict.fromkeys(collection["conclusion"])}
    docnos: dict[str, list[str]] = {}
    for text, docno in zip(collection["conclusion"], collection["docno"], strict=True):
        docnos.setdefault(normal_forms[text], []).append(docno)
    conclusions = sorted(docnos)
    counter = TermCounter(lambda word: (word,))
    words: Iterable[Token] = chain.from_iterable(
        (*text.split(), END_OF_TEXT) for text in conclusions
    )
    counts = counter.count(words).T.tocsr()  # (terms, conclusions)
    lengths = counts.sum(axis=0)
    df = np.diff(counts.indptr)
    mean_length = lengths.sum().item() / len(conclusions)
    idf = _compute_idf(len(conclusions), df.tolist())
    counts.data = bm25(counts.data, lengths[counts.indices], mean_length, np.repeat(idf, df), K1, B)
    write_matrix(directory, "weights", [counts])
    data = _Conclusions(
        conclusions,
        [sorted(docnos[conclusion]) for conclusion in conclusions],
        mean_length,
        dict(zip(counter.term_numbers, idf, strict=True)),
    )
    (directory / "conclusions.msgpack").write_bytes(msgspec.msgpack.encode(data))


def _compute_idf(n_conclusions: int, df: list[int]) -> list[float]:
    """Compute ln((N - df + ½) / (df + ½)) for all terms, in order of first occurrence.

    As in rank-bm25, a quarter of the mean idf replaces negative ones. If none is positive, as with
    one or two conclusions, all are 1.
    """
    idf = [math.log(n_conclusions - count + 0.5) - math.log(count + 0.5) for count in df]
    total = 0.0
    for value in idf:  # sum() would round less
        total += value
    idf = [value if value >= 0 else EPSILON * (total / len(idf)) for value in idf]
    return idf if any(value > 0 for value in idf) else [1.0] * len(idf)


def retrieve(topics: pd.DataFrame, index: ConclusionIndex) -> pd.DataFrame:
    """Rank all premises of each topic's top conclusions by conclusion, then docno.

    Returns `qid docno rank score`, with the scores of conclusions; a topic without a match gets an
    empty ranking and a warning.
    """
    log.info("conclusion retrieval: %d unique normalised conclusions", len(index.conclusions))
    rows: list[tuple[str, str, float]] = []
    pairs = list(zip(topics["qid"], topics["query"], strict=True))
    for qid, query in track(pairs, "conclusion retrieval", "topics"):
        hits = [
            (docno, score)
            for conclusion, score in index.find_top_conclusions(query)
            for docno in index.docnos[conclusion]
        ]
        if not hits:
            reason = "its terms occur in too many conclusions to score above 0"
            if index.idf.keys().isdisjoint(normalise(query).split()):
                reason = "no conclusion contains a query term"
            log.warning("topic %s (%s): %s; its ranking is empty", qid, abbreviate(query), reason)
        rows += [(qid, docno, score) for docno, score in hits]
    return build_rankings(rows)


@dataclass(frozen=True)
class ConclusionStage(Stage):
    """BM25 over conclusions, returning all premises of the top ones (Entezari 2020, section 4.3).

    If there is an input run, `rank` returns it unchanged.
    """

    version = 1
    family = "lexical"
    computes_with = (__name__,)
    checkpoint = None

    def rank(self, retrieval: Retrieval) -> pd.DataFrame:
        input_run = retrieval.input_run
        return self.search(retrieval) if input_run is None else input_run

    def search(self, retrieval: Retrieval) -> pd.DataFrame:
        """Return the premises of the top conclusions, by conclusion, then by docno."""
        index = self._get_index(retrieval.collection)
        with retrieval.collection.stopwatch.stage("conclusion retrieval"):
            return retrieve(retrieval.topics, index)

    def build_index(self, collection: Collection) -> None:
        self._get_index(collection)

    def _get_index(self, collection: Collection) -> ConclusionIndex:
        def build(directory: Path) -> None:
            build_conclusion_index(directory, collection.documents.read_conclusions())

        def describe() -> str:
            return describe_versions(__name__)

        return collection.get_index(
            "conclusions", "conclusion index", None, describe, build, ConclusionIndex
        )

    def score(self, retrieval: Retrieval, pairs: pd.DataFrame) -> np.ndarray:
        index = self._get_index(retrieval.collection)
        documents = retrieval.collection.documents.read_texts(set(pairs["docno"]))
        conclusion_by_docno = documents.set_index("docno")["conclusion"]
        query_by_qid = retrieval.topics.set_index("qid")["query"]
        scores = []
        for qid, docno in zip(pairs["qid"], pairs["docno"], strict=True):
            terms = index.compute_term_contributions(query_by_qid[qid], conclusion_by_docno[docno])
            scores.append(sum(value for _, value in terms))
        return np.array(scores, dtype=float)

    def explain(self, retrieval: Retrieval, qid: str, docno: str) -> Explanation:
        if retrieval.input_run is not None:
            file = retrieval.input_file
            raise UsageError(
                f"scores supplied in {file} cannot be explained; choose another system"
            )
        index = self._get_index(retrieval.collection)
        [conclusion] = retrieval.collection.documents.read_texts({docno})["conclusion"]
        contributions = index.compute_term_contributions(retrieval.get_query(qid), conclusion)
        rows = [Row(value, term) for term, value in contributions]
        return Explanation(
            sum(row.value for row in rows),
            rows,
            "BM25 score of the conclusion, summed over query terms",
        )

    def describe_input(self, file: Path) -> str:
        return f"the ranking in {file.name}, unchanged"
