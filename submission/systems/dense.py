"""Dense retrieval of conclusions or premises with a bi-encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from submission.rankings import DEEPEST, of_rows, ranked, rows_of
from submission.rankings import Row as RankingRow
from submission.retrieval.conclusion_bm25 import CONCLUSIONS
from submission.retrieval.dense import (
    DenseIndex,
    Texts,
    conclusions_of,
    dense_index,
    premises_of,
    represented,
    titles_of,
)
from submission.storage.artifact_store import Kept
from submission.storage.code_fingerprint import code_fingerprint
from submission.systems.execution import Execution, Stage
from submission.systems.explanation import Explained, Row
from submission.systems.neural import NetworkStage


class _Vectors(NetworkStage):
    """A stage that scores by cosine similarity between topic vectors and indexed text vectors."""

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Break the score down by word piece, plus the rounding error of the stored vector."""
        explanation = super().explain(execution, qid, docno)
        [score] = self.scores(execution, pd.DataFrame({"qid": [qid], "docno": [docno]})).tolist()
        rounding = Row(score - explanation.score, "rounding", "text vector stored in float16")
        views = {title: [*rows, rounding] for title, rows in explanation.views.items()}
        return replace(explanation, score=score, parts=[*explanation.parts, rounding], views=views)

    def _cosines(self, execution: Execution, pairs: pd.DataFrame, names: np.ndarray, index: DenseIndex) -> np.ndarray:
        """Compute the cosine similarity of each pair's topic and text; `names` identify the texts in the index."""
        topics = execution.topics[execution.topics["qid"].isin(set(pairs["qid"]))]
        topic_vectors = dict(zip(topics["qid"], self._titles(execution, topics), strict=True))
        scores = np.zeros(len(pairs))
        for qid, rows in pairs.groupby("qid").indices.items():
            scores[rows] = index.scores(topic_vectors[qid], names[rows].tolist())
        return scores

    def _titles(self, execution: Execution, topics: pd.DataFrame) -> np.ndarray:
        """Encode topics as vectors."""
        checkpoint = self.opened(execution.checkpoints)
        return represented(topics["query"].tolist(), checkpoint, execution.device, execution.engine)

    def _index(self, execution: Execution, texts: Texts, kept: Kept) -> DenseIndex:
        """Load or build the vector index of the texts."""
        return dense_index(texts, self.opened(execution.checkpoints), execution.device, kept, execution.engine)

    def _index_of(self, execution: Execution, texts: Texts, place: Callable[..., Kept], name: str) -> DenseIndex:
        """Load or build the vector index of exactly these texts, cached under their names."""
        texts_hash = hashlib.sha256("\n".join(texts.names).encode()).hexdigest()
        cache = place(f"{name}-{self.checkpoint}", _vectors_code(), *self.decided_by(execution), texts_hash)
        return self._index(execution, texts, cache)


def _vectors_code() -> str:
    """Return the hash of the code that encodes texts, without that of the network."""
    return code_fingerprint(dense_index.__module__, shallow=(__name__,))


@dataclass(frozen=True)
class DenseConclusions(_Vectors):
    """Premises of the conclusions nearest to the topic; both are encoded as queries."""

    checkpoint: str

    def search(self, execution: Execution) -> pd.DataFrame:
        """Rank the premises of the nearest conclusions by the conclusions' cosine similarity."""
        topics = execution.topics
        cache = execution.place(f"conclusions-{self.checkpoint}", _vectors_code(), *self.decided_by(execution))
        docnos_by_conclusion = conclusions_of(execution.documents.conclusions, cache)
        index = self._index(execution, titles_of(list(docnos_by_conclusion)), cache)
        nearest = index.nearest(self._titles(execution, topics), CONCLUSIONS)
        rows = [
            (qid, docno, score)
            for qid, (conclusions, scores) in zip(topics["qid"], nearest, strict=True)
            for conclusion, score in zip(conclusions, scores.tolist(), strict=True)
            for docno in docnos_by_conclusion[conclusion]
        ]
        return ranked(pd.DataFrame(rows, columns=["qid", "docno", "score"]), topics)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Score topic-conclusion cosine similarity, also for documents with a premise too short for the collection."""
        texts = execution.documents.texts(set(pairs["docno"])).set_index("docno")["conclusion"]
        index = self._index_of(execution, titles_of(sorted(set(texts))), execution.place_of_pairs, "conclusion-vectors")
        return self._cosines(execution, pairs, texts.loc[pairs["docno"]].to_numpy(), index)

    def read(self, execution: Execution, docno: str) -> tuple[str, list[int]]:
        """Return the conclusion's name and token ids."""
        [conclusion] = execution.documents.texts({docno})["conclusion"]
        return "conclusion", self.opened(execution.checkpoints).tokeniser.query(conclusion)


@dataclass(frozen=True)
class Dense(_Vectors):
    """Dense retrieval of premises.

    Searches the whole collection or, if the checkpoint's scope says so, the premises of the nearest conclusions and the
    candidates of another stage.
    """

    others: Stage
    checkpoint: str

    def made_of(self) -> tuple[Stage, Stage]:
        return DenseConclusions(self.checkpoint), self.others

    def search(self, execution: Execution) -> pd.DataFrame:
        """Rank documents by cosine similarity."""
        checkpoint, topics = self.opened(execution.checkpoints), execution.topics
        if checkpoint.ranker.config.scope == "conclusions":
            candidates = [execution.lists(stage)[["qid", "docno"]] for stage in self.made_of()]
            pairs = pd.concat(candidates, ignore_index=True).drop_duplicates(ignore_index=True)
            return ranked(pairs.assign(score=self.scores(execution, pairs)), topics)
        index = self._premises(execution, execution.documents.collection, execution.place, "index")
        vectors = self._titles(execution, topics)
        rows: list[RankingRow] = []
        for qid, (docnos, scores) in zip(topics["qid"], index.nearest(vectors, DEEPEST), strict=True):
            rows += rows_of(qid, docnos, scores)
        return of_rows(rows)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Compute cosine similarities with the document vectors as the index stores them."""
        index = self._premises(execution, sorted(set(pairs["docno"])), execution.place_of_pairs, "vectors")
        return self._cosines(execution, pairs, pairs["docno"].to_numpy(), index)

    def metadata(self, name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"candidates from": name(self.others)}

    def _premises(self, execution: Execution, docnos: list[str], place: Callable[..., Kept], name: str) -> DenseIndex:
        return self._index_of(execution, premises_of(docnos, execution.documents.texts), place, name)
