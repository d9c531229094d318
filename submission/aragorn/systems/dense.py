"""Dense retrieval of conclusions or premises with a bi-encoder."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from aragorn.explanation import Explanation, Row
from aragorn.index import dense
from aragorn.index.conclusions import MAX_CONCLUSIONS
from aragorn.index.dense import (
    DenseIndex,
    NamedTexts,
    encode_queries,
    get_dense_ranker,
    group_by_conclusion,
    load_or_build_dense_index,
    make_conclusion_texts,
    make_premise_texts,
)
from aragorn.index.vectors import VectorStore, hash_text
from aragorn.rankings import MAX_DEPTH, build_rankings, make_ranking_rows, rank_by_score
from aragorn.systems.execution import Execution, Stage
from aragorn.systems.neural import NetworkStage
from aragorn.versions import describe_versions

INDEX_SAMPLE_SIZE = 64  # premises by which an index counts as complete


class DenseStage(NetworkStage):
    """A stage that scores by cosine similarity between topic vectors and indexed text vectors."""

    version = 1
    field: ClassVar[str]  # argument field that is indexed
    input_type: ClassVar[Literal["query", "premise"]]  # which input of the network this field is

    def get_sources(self) -> tuple[ModuleType | type, ...]:
        return (*super().get_sources(), dense)

    def explain(self, execution: Execution, qid: str, docno: str) -> Explanation:
        """Break the score down by word piece, plus the rounding error of the stored vector."""
        explanation = super().explain(execution, qid, docno)
        score = self.score_document(execution, qid, docno)
        rounding = Row(score - explanation.score, "rounding", "text vector stored in float16")
        breakdowns = {title: [*rows, rounding] for title, rows in explanation.breakdowns.items()}
        contributions = [*explanation.contributions, rounding]
        return replace(explanation, score=score, contributions=contributions, breakdowns=breakdowns)

    def build_index(self, execution: Execution) -> None:
        self._index_all(execution)

    def select_unindexed(self, execution: Execution, documents: pd.DataFrame) -> pd.DataFrame:
        """Return the `documents` whose texts have no vectors."""
        rows = self._get_vectors(execution).find(
            [hash_text(self.input_type, text) for text in documents[self.field]]
        )
        return documents[rows < 0]

    @abstractmethod
    def _index_all(self, execution: Execution) -> Any:
        """Encode all texts of the collection, and return their index."""

    def _compute_cosines(
        self, execution: Execution, pairs: pd.DataFrame, names: np.ndarray, index: DenseIndex
    ) -> np.ndarray:
        """Compute the cosine similarities (N,) of each pair's topic and text; `names` (N,) identify
        the texts in `index`."""
        topics = execution.topics[execution.topics["qid"].isin(set(pairs["qid"]))]
        topic_vectors = dict(
            zip(topics["qid"], self._encode_topics(execution, topics), strict=True)
        )
        scores = np.zeros(len(pairs))
        for qid, rows in pairs.groupby("qid").indices.items():
            scores[rows] = index.score(topic_vectors[qid], names[rows].tolist())
        return scores

    def _encode_topics(self, execution: Execution, topics: pd.DataFrame) -> np.ndarray:
        checkpoint = self.load_checkpoint(execution.checkpoints)
        return encode_queries(
            topics["query"].tolist(), checkpoint, execution.device, execution.engine
        )

    def _load_or_build_index(self, execution: Execution, texts: NamedTexts) -> DenseIndex:
        checkpoint = self.load_checkpoint(execution.checkpoints)
        return load_or_build_dense_index(
            texts, checkpoint, execution.device, self._get_vectors(execution), execution.engine
        )

    def _get_vectors(self, execution: Execution) -> VectorStore:
        return execution.compute_once_per_collection(
            self.checkpoint, "vectors", partial(self._open_vectors, execution)
        )

    @property
    def _store_name(self) -> str:
        return f"vectors-{self.checkpoint}"

    def _open_vectors(self, execution: Execution) -> VectorStore:
        """Open the store of the checkpoint's vectors, which all stages and inputs with this cache
        directory share."""
        key_parts = self.describe_sources(), *self.get_key_parts(execution)
        ranker = get_dense_ranker(self.load_checkpoint(execution.checkpoints))
        parts = execution.cache.parts(self._store_name, " ".join(key_parts))
        return VectorStore(parts, ranker.dimension)


@dataclass(frozen=True)
class DenseConclusionStage(DenseStage):
    """Dense retrieval of all premises of the nearest conclusions; topics and conclusions are
    encoded as queries."""

    version = 1
    field, input_type = "conclusion", "query"
    checkpoint: str

    def search(self, execution: Execution) -> pd.DataFrame:
        """Rank the premises of the conclusions nearest to each topic by the cosine similarity of
        conclusion and topic."""
        topics = execution.topics
        docnos_by_conclusion, index = execution.compute_once_per_collection(
            self, "index", partial(self._index_all, execution)
        )
        nearest_conclusions = index.search(self._encode_topics(execution, topics), MAX_CONCLUSIONS)
        rows = [
            (qid, docno, score)
            for qid, (conclusions, scores) in zip(topics["qid"], nearest_conclusions, strict=True)
            for conclusion, score in zip(conclusions, scores.tolist(), strict=True)
            for docno in docnos_by_conclusion[conclusion]
        ]
        return rank_by_score(pd.DataFrame(rows, columns=["qid", "docno", "score"]), topics)

    def _index_all(self, execution: Execution) -> tuple[dict[str, list[str]], DenseIndex]:
        """Return the docnos of each distinct conclusion, and the index of the conclusions."""
        docnos_by_conclusion = group_by_conclusion(
            execution.documents.read_conclusions,
            execution.cache,
            execution.get_collection_key(describe_versions(dense)),
        )
        return docnos_by_conclusion, self._load_or_build_index(
            execution, make_conclusion_texts(list(docnos_by_conclusion))
        )

    def score(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Compute the cosine similarities (N,) of topics and conclusions, including those of
        documents that are not indexed."""
        texts = execution.documents.read_texts(set(pairs["docno"])).set_index("docno")["conclusion"]
        conclusions = make_conclusion_texts(sorted(set(texts)))
        index = self._load_or_build_index(execution, conclusions)
        return self._compute_cosines(execution, pairs, texts.loc[pairs["docno"]].to_numpy(), index)

    def get_model_input(self, execution: Execution, docno: str) -> tuple[str, list[int]]:
        """Return the field name "conclusion" and the token ids of the conclusion."""
        [conclusion] = execution.documents.read_texts({docno})["conclusion"]
        return "conclusion", self.load_checkpoint(execution.checkpoints).tokeniser.encode_query(
            conclusion
        )


@dataclass(frozen=True)
class DensePremiseStage(DenseStage):
    """Dense retrieval of premises.

    The stage searches the whole collection or, if the checkpoint's scope is "conclusions", the
    premises of the nearest conclusions and the documents of `extra_candidates`.
    """

    version = 1
    field = input_type = "premise"
    extra_candidates: Stage
    checkpoint: str

    def get_dependencies(self) -> tuple[Stage, Stage]:
        return DenseConclusionStage(self.checkpoint), self.extra_candidates

    def search(self, execution: Execution) -> pd.DataFrame:
        checkpoint, topics = self.load_checkpoint(execution.checkpoints), execution.topics
        if checkpoint.network.config.scope == "conclusions":
            candidates = [
                execution.get_ranking(stage)[["qid", "docno"]] for stage in self.get_dependencies()
            ]
            return self.rank_pairs(
                execution,
                pd.concat(candidates, ignore_index=True).drop_duplicates(ignore_index=True),
            )
        index = execution.compute_once_per_collection(
            self, "index", partial(self._index_all, execution)
        )
        hits = zip(
            topics["qid"],
            index.search(self._encode_topics(execution, topics), MAX_DEPTH),
            strict=True,
        )
        return build_rankings(
            [
                row
                for qid, (docnos, scores) in hits
                for row in make_ranking_rows(qid, docnos, scores)
            ]
        )

    def _index_all(self, execution: Execution) -> DenseIndex:
        """Return the index of all premises of the collection."""
        documents = execution.documents
        return self._load_or_build_index(
            execution, make_premise_texts(documents.searchable_docnos, documents.read_texts)
        )

    def is_indexed(self, execution: Execution) -> bool:
        """Return whether a sample of the premises has vectors; loads no network if the cache has no
        vectors at all."""
        if not execution.cache.has(self._store_name):
            return False
        docnos = execution.documents.searchable_docnos
        sample = docnos[:: -(-len(docnos) // INDEX_SAMPLE_SIZE)]
        return self.select_unindexed(execution, execution.documents.read_texts(sample)).empty

    def score(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Compute the cosine similarities (N,) of topics and premises, with premise vectors in the
        precision of the index."""
        premises = make_premise_texts(sorted(set(pairs["docno"])), execution.documents.read_texts)
        index = self._load_or_build_index(execution, premises)
        return self._compute_cosines(execution, pairs, pairs["docno"].to_numpy(), index)

    def get_metadata(self, get_name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"candidates from": get_name(self.extra_candidates)}
