"""Dense retrieval of conclusions or premises with a bi-encoder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from aragorn.engine import run_task
from aragorn.explanation import Explanation, Row
from aragorn.index.dense import (
    DenseIndex,
    NamedTexts,
    encode_queries,
    get_dense_ranker,
    group_by_conclusion,
    load_or_build_dense_index,
)
from aragorn.index.vectors import VectorStore, hash_text
from aragorn.pipeline.retrieval import Retrieval, Stage
from aragorn.pipeline.session import CheckpointStore, Collection, Session
from aragorn.rankings import MAX_DEPTH, build_rankings, rank_by_score
from aragorn.systems.conclusions import MAX_CONCLUSIONS
from aragorn.systems.neural import NetworkStage
from aragorn.versions import describe_versions

if TYPE_CHECKING:
    import pandas as pd

INDEX_MODULE = "aragorn.index.dense"
INDEX_SAMPLE_SIZE = 64  # premises by which an index counts as complete


class DenseStage(NetworkStage):
    """A stage that scores by cosine similarity between topic vectors and indexed text vectors."""

    version = 1
    computes_with = (INDEX_MODULE, "aragorn.systems.conclusions")  # number of conclusions
    family = "dense"
    field: ClassVar[str]  # argument field that is indexed
    input_type: ClassVar[Literal["query", "premise"]]  # encode as query or as premise

    def explain(self, retrieval: Retrieval, qid: str, docno: str) -> Explanation:
        """Break the score down by subword, plus the rounding error of the stored vector."""
        explanation = super().explain(retrieval, qid, docno)
        score = self.score_document(retrieval, qid, docno)
        rounding = Row(score - explanation.score, "rounding", "text vector stored in float16")
        breakdowns = {title: [*rows, rounding] for title, rows in explanation.breakdowns.items()}
        contributions = [*explanation.contributions, rounding]
        return replace(explanation, score=score, contributions=contributions, breakdowns=breakdowns)

    def build_index(self, collection: Collection) -> None:
        self._index_all(collection)

    def select_unindexed(self, collection: Collection, documents: pd.DataFrame) -> pd.DataFrame:
        keys = [hash_text(self.input_type, text) for text in documents[self.field]]
        return documents[self._get_vectors(collection.session).find(keys) < 0]

    @abstractmethod
    def _index_all(self, collection: Collection) -> Any:
        """Encode all texts of the collection, and return their index."""

    def _compute_cosines(
        self, retrieval: Retrieval, pairs: pd.DataFrame, names: np.ndarray, index: DenseIndex
    ) -> np.ndarray:
        """Compute the cosine similarities (N,) of topics and the texts `names` (N,)."""
        topics = retrieval.topics[retrieval.topics["qid"].isin(set(pairs["qid"]))]
        vectors = self._encode_topics(retrieval.session, topics)
        vector_by_qid = dict(zip(topics["qid"], vectors, strict=True))
        scores = np.zeros(len(pairs))
        for qid, rows in pairs.groupby("qid").indices.items():
            scores[rows] = index.score(vector_by_qid[qid], names[rows].tolist())
        return scores

    def _encode_topics(self, session: Session, topics: pd.DataFrame) -> np.ndarray:
        checkpoint = self.load_checkpoint(session.checkpoints)
        encode = partial(encode_queries, checkpoint=checkpoint, device=session.device)
        return run_task(session.engine, encode, topics["query"].tolist(), session.device)

    def _index_texts(self, session: Session, texts: NamedTexts) -> DenseIndex:
        checkpoint = self.load_checkpoint(session.checkpoints)
        vectors = self._get_vectors(session)
        return load_or_build_dense_index(texts, checkpoint, session.device, vectors, session.engine)

    @property
    def _store_name(self) -> str:
        return f"vectors-{self.checkpoint}"

    def _get_vectors(self, session: Session) -> VectorStore:
        """Return the checkpoint's vectors, which all stages and collections share."""

        def open_store() -> VectorStore:
            ranker = get_dense_ranker(self.load_checkpoint(session.checkpoints))
            # without a class, as stages of several classes share the vectors
            key = f"{describe_versions(INDEX_MODULE)} {self.describe_checkpoint(session)}"
            return VectorStore(session.cache.parts(self._store_name, key), ranker.dimension)

        return session.memo.once(self.checkpoint, "vectors", open_store)


@dataclass(frozen=True)
class DenseConclusionStage(DenseStage):
    """Dense retrieval of the premises of the nearest conclusions, encoded as queries."""

    version = 1
    field, input_type = "conclusion", "query"
    checkpoint: str

    def search(self, retrieval: Retrieval) -> pd.DataFrame:
        """Rank the premises of the nearest conclusions by these conclusions' similarity."""
        import pandas as pd

        topics = retrieval.topics
        docnos_by_conclusion, index = self._index_all(retrieval.collection)
        topic_vectors = self._encode_topics(retrieval.session, topics)
        nearest_conclusions = index.search(topic_vectors, MAX_CONCLUSIONS)
        rows = [
            (qid, docno, score)
            for qid, (conclusions, scores) in zip(topics["qid"], nearest_conclusions, strict=True)
            for conclusion, score in zip(conclusions, scores.tolist(), strict=True)
            for docno in docnos_by_conclusion[conclusion]
        ]
        return rank_by_score(pd.DataFrame(rows, columns=["qid", "docno", "score"]), topics)

    def _index_all(self, collection: Collection) -> tuple[dict[str, list[str]], DenseIndex]:
        """Return the docnos of each distinct conclusion, and the index of the conclusions."""

        def build() -> tuple[dict[str, list[str]], DenseIndex]:
            docnos_by_conclusion = group_by_conclusion(
                collection.documents.read_conclusions,
                collection.session.cache,
                collection.compute_key(describe_versions(INDEX_MODULE)),
            )
            texts = NamedTexts(list(docnos_by_conclusion), list, "query")
            return docnos_by_conclusion, self._index_texts(collection.session, texts)

        return collection.memo.once(self, "index", build)

    def score(self, retrieval: Retrieval, pairs: pd.DataFrame) -> np.ndarray:
        """Compute the cosine similarities (N,) of topics and conclusions, indexed or not."""
        documents = retrieval.collection.documents.read_texts(set(pairs["docno"]))
        conclusion_by_docno = documents.set_index("docno")["conclusion"]
        conclusions = NamedTexts(sorted(set(conclusion_by_docno)), list, "query")
        index = self._index_texts(retrieval.session, conclusions)
        names = conclusion_by_docno.loc[pairs["docno"]].to_numpy()
        return self._compute_cosines(retrieval, pairs, names, index)

    def get_model_input(self, collection: Collection, docno: str) -> tuple[str, list[int]]:
        [conclusion] = collection.documents.read_texts({docno})["conclusion"]
        checkpoint = self.load_checkpoint(collection.session.checkpoints)
        return "conclusion", checkpoint.tokeniser.encode_query(conclusion)


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

    def get_candidate_stages(self, checkpoints: CheckpointStore) -> tuple[Stage, ...]:
        scope = self.load_checkpoint(checkpoints).network.config.scope
        return self.get_dependencies() if scope == "conclusions" else ()

    def search(self, retrieval: Retrieval) -> pd.DataFrame:
        import pandas as pd

        topics = retrieval.topics
        candidate_stages = self.get_candidate_stages(retrieval.session.checkpoints)
        if candidate_stages:
            rankings = [retrieval.rank(stage)[["qid", "docno"]] for stage in candidate_stages]
            candidates = pd.concat(rankings, ignore_index=True)
            return self.rank_pairs(retrieval, candidates.drop_duplicates(ignore_index=True))
        index = self._index_all(retrieval.collection)
        hits = index.search(self._encode_topics(retrieval.session, topics), MAX_DEPTH)
        return build_rankings(
            (qid, docno, score)
            for qid, (docnos, scores) in zip(topics["qid"], hits, strict=True)
            for docno, score in zip(docnos, scores.tolist(), strict=True)
        )

    def _index_all(self, collection: Collection) -> DenseIndex:
        docnos = collection.documents.searchable_docnos
        return collection.memo.once(self, "index", lambda: self._index_premises(collection, docnos))

    def _index_premises(self, collection: Collection, docnos: list[str]) -> DenseIndex:
        def load(names: list[str]) -> list[str]:
            return collection.documents.read_texts(names)["premise"].tolist()

        return self._index_texts(collection.session, NamedTexts(docnos, load, "premise"))

    def is_indexed(self, collection: Collection) -> bool:
        """Return whether a sample of premises has vectors; load no network if there are none."""
        if not collection.session.cache.has(self._store_name):
            return False
        docnos = collection.documents.searchable_docnos
        sample = docnos[:: -(-len(docnos) // INDEX_SAMPLE_SIZE)]
        return self.select_unindexed(collection, collection.documents.read_texts(sample)).empty

    def score(self, retrieval: Retrieval, pairs: pd.DataFrame) -> np.ndarray:
        """Compute the cosine similarities (N,) of topics and premises, as in the index."""
        index = self._index_premises(retrieval.collection, sorted(set(pairs["docno"])))
        return self._compute_cosines(retrieval, pairs, pairs["docno"].to_numpy(), index)

    def get_metadata(self, get_name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"candidates from": get_name(self.extra_candidates)}
