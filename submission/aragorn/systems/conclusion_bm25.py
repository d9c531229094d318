"""BM25 over conclusions, returning all premises of the top conclusions: the candidates of the
neural re-rankers."""

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd

from aragorn.errors import UsageError
from aragorn.explanation import Explanation, Row
from aragorn.index import conclusions, inverted, weighting
from aragorn.index.conclusions import (
    ConclusionIndex,
    build_conclusion_index,
    retrieve,
)
from aragorn.systems.execution import Execution, Stage
from aragorn.text import normalisation


@dataclass(frozen=True)
class ConclusionStage(Stage):
    """BM25 over conclusions, returning all premises of the top conclusions (Entezari 2020, section
    4.3).

    If the input supplies a ranking, `rank` returns it unchanged.
    """

    version = 1
    libraries = ("numpy", "scipy")
    checkpoint = None

    def get_sources(self) -> tuple[ModuleType | type, ...]:
        return (normalisation, inverted, weighting, conclusions)

    def rank(self, execution: Execution) -> pd.DataFrame:
        return self.search(execution) if execution.input_run is None else execution.input_run

    def search(self, execution: Execution) -> pd.DataFrame:
        """Return the premises of the top conclusions, in the order of their conclusions, then by
        docno."""
        index = self._get_index(execution)
        with execution.stopwatch.stage("conclusion retrieval"):
            return retrieve(execution.topics, index)

    def build_index(self, execution: Execution) -> None:
        self._get_index(execution)

    def score(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Compute the BM25 scores (N,) of the documents' conclusions, with the collection's
        statistics."""
        index = self._get_index(execution)
        texts = execution.documents.read_texts(set(pairs["docno"])).set_index("docno")["conclusion"]
        queries = execution.topics.set_index("qid")["query"]
        rows = zip(pairs["qid"], pairs["docno"], strict=True)
        contributions = (
            index.compute_term_contributions(queries[qid], texts[docno]) for qid, docno in rows
        )
        return np.array([sum(value for _, value in terms) for terms in contributions], dtype=float)

    def explain(self, execution: Execution, qid: str, docno: str) -> Explanation:
        """Break the score down by query term."""
        if execution.input_run is not None:
            file = execution.input.ranking_file
            raise UsageError(
                f"scores supplied in {file} cannot be explained; choose another system"
            )
        [query], [conclusion] = (
            execution.topics["query"],
            execution.documents.read_texts({docno})["conclusion"],
        )
        contributions = self._get_index(execution).compute_term_contributions(query, conclusion)
        rows = [Row(value, term) for term, value in contributions]
        return Explanation(
            sum(row.value for row in rows),
            rows,
            "BM25 score of the conclusion, summed over query terms",
        )

    def describe_input(self, file: Path) -> str:
        return f"the ranking in {file.name}, unchanged"

    def _get_index(self, execution: Execution) -> ConclusionIndex:
        def load_or_build() -> ConclusionIndex:
            with execution.stopwatch.stage("conclusion index"):
                key = execution.get_collection_key(self.describe_sources())
                return ConclusionIndex(execution.cache.directory("conclusions", key, build))

        def build(directory: Path) -> None:
            build_conclusion_index(directory, execution.documents.read_conclusions())

        return execution.compute_once_per_collection(type(self), "index", load_or_build)
