"""BM25 over conclusions, returning all their premises: the candidates of the re-rankers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aragorn.errors import UsageError
from aragorn.explanation import Explanation, Row
from aragorn.index import conclusions, inverted, weighting
from aragorn.index.conclusions import ConclusionIndex, build_conclusion_index, retrieve
from aragorn.pipeline.collection import Artifact, Collection
from aragorn.pipeline.retrieval import Retrieval, Stage
from aragorn.pipeline.session import Session
from aragorn.text import normalisation
from aragorn.versions import describe_versions

if TYPE_CHECKING:
    import pandas as pd

SOURCES = (normalisation, inverted, weighting, conclusions)
LIBRARIES = ("numpy", "scipy")


@dataclass(frozen=True)
class ConclusionIndexArtifact(Artifact[ConclusionIndex]):
    """The index of the collection's conclusions."""

    title = "conclusion index"
    name = "conclusions"

    def describe(self, session: Session) -> str:
        return describe_versions(*SOURCES, libraries=LIBRARIES)

    def build(self, collection: Collection, directory: Path) -> None:
        build_conclusion_index(directory, collection.documents.read_conclusions())

    def open(self, collection: Collection, directory: Path) -> ConclusionIndex:
        return ConclusionIndex(directory)


@dataclass(frozen=True)
class ConclusionStage(Stage):
    """BM25 over conclusions, returning all premises of the top ones (Entezari 2020, section 4.3).

    If there is an input run, `rank` returns it unchanged.
    """

    version = 1
    family = "lexical"
    libraries = LIBRARIES
    sources = SOURCES
    checkpoint = None

    def rank(self, retrieval: Retrieval) -> pd.DataFrame:
        input_run = retrieval.input_run
        return self.search(retrieval) if input_run is None else input_run

    def search(self, retrieval: Retrieval) -> pd.DataFrame:
        """Return the premises of the top conclusions, by conclusion, then by docno."""
        index = retrieval.collection.get(ConclusionIndexArtifact())
        with retrieval.collection.stopwatch.stage("conclusion retrieval"):
            return retrieve(retrieval.topics, index)

    def build_index(self, collection: Collection) -> None:
        collection.get(ConclusionIndexArtifact())

    def score(self, retrieval: Retrieval, pairs: pd.DataFrame) -> np.ndarray:
        index = retrieval.collection.get(ConclusionIndexArtifact())
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
        index = retrieval.collection.get(ConclusionIndexArtifact())
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
