"""Retrieve conclusions by BM25, with all their premises: the candidates of the networks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from submission.errors import UsageError
from submission.retrieval.conclusions import ConclusionIndex, conclusion_index, retrieve
from submission.systems.execution import Execution, Stage
from submission.systems.explained import Explained, Row


@dataclass(frozen=True)
class Conclusions(Stage):
    """BM25 over the conclusions, with all their premises (thesis 4.3); or the list that was handed over, as it is."""

    checkpoint = None

    def lists(self, execution: Execution) -> pd.DataFrame:
        return self.search(execution) if execution.given is None else execution.given

    def search(self, execution: Execution) -> pd.DataFrame:
        """The premises of the best conclusions, in the order of these, then by docno."""
        index = self._index(execution)
        with execution.stopwatch.stage("candidates"):
            return retrieve(execution.topics, index)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """BM25 of the documents' conclusions, with the statistics of the collection."""
        index = self._index(execution)
        texts = execution.documents.texts(set(pairs["docno"])).set_index("docno")["conclusion"]
        queries = execution.topics.set_index("qid")["query"]
        rows = zip(pairs["qid"], pairs["docno"], strict=True)
        return np.array([sum(value for _, value in index.shares(queries[q], texts[d])) for q, d in rows], dtype=float)

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Explain the share of each query word."""
        if execution.given is not None:
            raise UsageError(f"scores are those of {execution.input.list_file}, they were not made here")
        [query], [conclusion] = execution.topics["query"], execution.documents.texts({docno})["conclusion"]
        shares = self._index(execution).shares(query, conclusion)
        how = "that of its conclusion: a sum over the words of the query"
        return Explained(sum(value for _, value in shares), how, [Row(value, word) for word, value in shares])

    def of_list(self, file: Path) -> str:
        return f"{file.name} as it is"

    def _index(self, execution: Execution) -> ConclusionIndex:
        return execution.once_of_collection(type(self), "index", lambda: self._made(execution))

    @staticmethod
    def _made(execution: Execution) -> ConclusionIndex:
        with execution.stopwatch.stage("index"):
            return conclusion_index(execution.documents.conclusions, execution.place("conclusions"))
