"""Dense retrieval by the vectors of a network: of conclusions, or of premises."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from submission import lists
from submission.disk.kept import Kept
from submission.retrieval.conclusions import CONCLUSIONS
from submission.retrieval.dense import (
    DenseIndex,
    Texts,
    conclusions_of,
    dense_index,
    premises_of,
    represented,
    titles_of,
)
from submission.systems.execution import Execution, Stage
from submission.systems.explained import Explained, Row
from submission.systems.neural import NetworkStage
from submission.systems.remembered import Checkpoints


class _Vectors(NetworkStage):
    """A stage whose scores are the cosines of a topic's vector with those of other texts, as an index has them."""

    def keeps(self, checkpoints: Checkpoints) -> dict[str, float]:
        """Vectors."""
        return {repr(self): 0.1}

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Explain the share of each piece of the text, and the effect of keeping vectors in half precision."""
        found = super().explain(execution, qid, docno)
        [score] = self.scores(execution, pd.DataFrame({"qid": [qid], "docno": [docno]})).tolist()
        rounding = Row(score - found.score, "rounding", "of the text's vector to 16 bits")
        views = {how: [*rows, rounding] for how, rows in found.views.items()}
        return replace(found, score=score, parts=[*found.parts, rounding], views=views)

    def _cosines(self, execution: Execution, pairs: pd.DataFrame, names: np.ndarray, index: DenseIndex) -> np.ndarray:
        """Compute the cosines of pairs' topics with texts, by their names in an index."""
        topics = execution.topics[execution.topics["qid"].isin(set(pairs["qid"]))]
        of_topic = dict(zip(topics["qid"], self._titles(execution, topics), strict=True))
        scores = np.zeros(len(pairs))
        for qid, places in pairs.groupby("qid").indices.items():
            scores[places] = index.scores(of_topic[qid], names[places].tolist())
        return scores

    def _titles(self, execution: Execution, topics: pd.DataFrame) -> np.ndarray:
        """The vectors of topics."""
        opened = self.opened(execution.checkpoints)
        return represented(topics["query"].tolist(), opened, execution.device, execution.engine)

    def _index(self, execution: Execution, texts: Texts, kept: Kept) -> DenseIndex:
        """The vectors of some texts."""
        return dense_index(texts, self.opened(execution.checkpoints), execution.device, kept, execution.engine)

    def _index_of(self, execution: Execution, texts: Texts, place: Callable[..., Kept], name: str) -> DenseIndex:
        """The same, kept for these very texts in a place of the execution."""
        of = hashlib.sha256("\n".join(texts.names).encode()).hexdigest()
        return self._index(execution, texts, place(f"{name}-{self.checkpoint}", *self.decided_by(execution), of))


@dataclass(frozen=True)
class DenseConclusions(_Vectors):
    """The premises of the conclusions that are nearest to the topic, both read as titles are."""

    checkpoint: str

    def search(self, execution: Execution) -> pd.DataFrame:
        """The premises of the best conclusions, by the conclusions' cosines."""
        topics, kept = execution.topics, execution.place(f"conclusions-{self.checkpoint}", *self.decided_by(execution))
        members = conclusions_of(execution.documents.conclusions, kept)
        index, vectors = self._index(execution, titles_of(list(members)), kept), self._titles(execution, topics)
        rows = [
            (qid, docno, score)
            for qid, (conclusions, scores) in zip(topics["qid"], index.nearest(vectors, CONCLUSIONS), strict=True)
            for conclusion, score in zip(conclusions, scores.tolist(), strict=True)
            for docno in members[conclusion]
        ]
        return lists.ranked(pd.DataFrame(rows, columns=["qid", "docno", "score"]), topics)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """The cosines of titles and conclusions, whatever the length of the premises."""
        texts = execution.documents.texts(set(pairs["docno"])).set_index("docno")["conclusion"]
        index = self._index_of(execution, titles_of(sorted(set(texts))), execution.place_of_pairs, "conclusion-vectors")
        return self._cosines(execution, pairs, texts.loc[pairs["docno"]].to_numpy(), index)

    def read(self, execution: Execution, docno: str) -> tuple[str, list[int]]:
        """The conclusion."""
        [conclusion] = execution.documents.texts({docno})["conclusion"]
        return "conclusion", self.opened(execution.checkpoints).tokeniser.query(conclusion)


@dataclass(frozen=True)
class Dense(_Vectors):
    """A network that finds its documents by vectors: in the whole collection or, as its checkpoint says, among the premises
    of the nearest conclusions and those that another stage lists.
    """

    others: Stage
    checkpoint: str

    def made_of(self) -> tuple[Stage, Stage]:
        return DenseConclusions(self.checkpoint), self.others

    def search(self, execution: Execution) -> pd.DataFrame:
        """The documents with the highest cosines."""
        opened, topics = self.opened(execution.checkpoints), execution.topics
        if opened.ranker.config.scope == "conclusions":
            candidates = [execution.lists(stage)[["qid", "docno"]] for stage in self.made_of()]
            pairs = pd.concat(candidates, ignore_index=True).drop_duplicates(ignore_index=True)
            return lists.ranked(pairs.assign(score=self.scores(execution, pairs)), topics)
        index = self._premises(execution, execution.documents.collection, execution.place, "index")
        vectors = self._titles(execution, topics)
        rows: list[lists.Row] = []
        for qid, (docnos, scores) in zip(topics["qid"], index.nearest(vectors, lists.DEEPEST), strict=True):
            rows += lists.rows_of(qid, docnos, scores)
        return lists.of_rows(rows)

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """The cosines, with documents' vectors as an index has them."""
        index = self._premises(execution, sorted(set(pairs["docno"])), execution.place_of_pairs, "vectors")
        return self._cosines(execution, pairs, pairs["docno"].to_numpy(), index)

    def metadata(self, name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"adds": name(self.others)}

    def _premises(self, execution: Execution, docnos: list[str], place: Callable[..., Kept], name: str) -> DenseIndex:
        return self._index_of(execution, premises_of(docnos, execution.documents.texts), place, name)
