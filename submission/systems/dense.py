"""Dense retrieval of conclusions or premises with a bi-encoder."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from submission.rankings import MAX_DEPTH, build_rankings, make_ranking_rows, rank_by_score
from submission.retrieval.conclusion_bm25 import MAX_CONCLUSIONS
from submission.retrieval.dense import (
    DenseIndex,
    NamedTexts,
    encode_queries,
    group_by_conclusion,
    load_or_build_dense_index,
    make_conclusion_texts,
    make_premise_texts,
)
from submission.storage.artifact_store import ArtifactStore
from submission.storage.code_fingerprint import code_fingerprint
from submission.systems.execution import Execution, Stage
from submission.systems.explanation import ExplanationRow, ScoreExplanation
from submission.systems.neural import NetworkStage

OpenCache = Callable[..., ArtifactStore]  # `open_collection_cache` or `open_pair_cache` of Execution


class DenseStage(NetworkStage):
    """A stage that scores by cosine similarity between topic vectors and indexed text vectors."""

    def explain(self, execution: Execution, qid: str, docno: str) -> ScoreExplanation:
        """Break the score down by word piece, plus the rounding error of the stored vector."""
        explanation = super().explain(execution, qid, docno)
        score = self.score_document(execution, qid, docno)
        rounding = ExplanationRow(score - explanation.score, "rounding", "text vector stored in float16")
        breakdowns = {title: [*rows, rounding] for title, rows in explanation.breakdowns.items()}
        contributions = [*explanation.contributions, rounding]
        return replace(explanation, score=score, contributions=contributions, breakdowns=breakdowns)

    def _compute_cosines(self, execution: Execution, pairs: pd.DataFrame, names: np.ndarray, index: DenseIndex) -> np.ndarray:
        """Compute the cosine similarities (N,) of each pair's topic and text; `names` (N,) identify the texts in `index`."""
        topics = execution.topics[execution.topics["qid"].isin(set(pairs["qid"]))]
        topic_vectors = dict(zip(topics["qid"], self._encode_topics(execution, topics), strict=True))
        scores = np.zeros(len(pairs))
        for qid, rows in pairs.groupby("qid").indices.items():
            scores[rows] = index.score(topic_vectors[qid], names[rows].tolist())
        return scores

    def _encode_topics(self, execution: Execution, topics: pd.DataFrame) -> np.ndarray:
        checkpoint = self.load_checkpoint(execution.checkpoints)
        return encode_queries(topics["query"].tolist(), checkpoint, execution.device, execution.engine)

    def _load_or_build_index(self, execution: Execution, texts: NamedTexts, cache: ArtifactStore) -> DenseIndex:
        checkpoint = self.load_checkpoint(execution.checkpoints)
        return load_or_build_dense_index(texts, checkpoint, execution.device, cache, execution.engine)

    def _index_texts(self, execution: Execution, texts: NamedTexts, open_cache: OpenCache, name: str) -> DenseIndex:
        """Load or build the vector index of these texts, cached under a hash of their names."""
        texts_hash = hashlib.sha256("\n".join(texts.names).encode()).hexdigest()
        cache = open_cache(f"{name}-{self.checkpoint}", _hash_encoding_code(), *self.get_key_parts(execution), texts_hash)
        return self._load_or_build_index(execution, texts, cache)


def _hash_encoding_code() -> str:
    """Hash the code that encodes texts, excluding the network's code."""
    return code_fingerprint(load_or_build_dense_index.__module__, shallow=(__name__,))


@dataclass(frozen=True)
class DenseConclusionStage(DenseStage):
    """Dense retrieval of all premises of the nearest conclusions; topics and conclusions are encoded as queries."""

    checkpoint: str

    def search(self, execution: Execution) -> pd.DataFrame:
        """Rank the premises of the conclusions nearest to each topic by the cosine similarity of conclusion and topic."""
        topics = execution.topics
        key_parts = _hash_encoding_code(), *self.get_key_parts(execution)
        cache = execution.open_collection_cache(f"conclusions-{self.checkpoint}", *key_parts)
        docnos_by_conclusion = group_by_conclusion(execution.documents.read_conclusions, cache)
        index = self._load_or_build_index(execution, make_conclusion_texts(list(docnos_by_conclusion)), cache)
        nearest_conclusions = index.search(self._encode_topics(execution, topics), MAX_CONCLUSIONS)
        rows = [
            (qid, docno, score)
            for qid, (conclusions, scores) in zip(topics["qid"], nearest_conclusions, strict=True)
            for conclusion, score in zip(conclusions, scores.tolist(), strict=True)
            for docno in docnos_by_conclusion[conclusion]
        ]
        return rank_by_score(pd.DataFrame(rows, columns=["qid", "docno", "score"]), topics)

    def score(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Compute the cosine similarities (N,) of topics and conclusions, including those of documents that are not indexed."""
        texts = execution.documents.read_texts(set(pairs["docno"])).set_index("docno")["conclusion"]
        conclusions = make_conclusion_texts(sorted(set(texts)))
        index = self._index_texts(execution, conclusions, execution.open_pair_cache, "conclusion-vectors")
        return self._compute_cosines(execution, pairs, texts.loc[pairs["docno"]].to_numpy(), index)

    def get_model_input(self, execution: Execution, docno: str) -> tuple[str, list[int]]:
        """Return the field name "conclusion" and the token ids of the conclusion."""
        [conclusion] = execution.documents.read_texts({docno})["conclusion"]
        return "conclusion", self.load_checkpoint(execution.checkpoints).tokeniser.encode_query(conclusion)


@dataclass(frozen=True)
class DensePremiseStage(DenseStage):
    """Dense retrieval of premises.

    The stage searches the whole collection or, if the checkpoint's scope is "conclusions", the premises of the nearest
    conclusions and the documents of `extra_candidates`.
    """

    extra_candidates: Stage
    checkpoint: str

    def get_dependencies(self) -> tuple[Stage, Stage]:
        return DenseConclusionStage(self.checkpoint), self.extra_candidates

    def search(self, execution: Execution) -> pd.DataFrame:
        checkpoint, topics = self.load_checkpoint(execution.checkpoints), execution.topics
        if checkpoint.network.config.scope == "conclusions":
            candidates = [execution.get_ranking(stage)[["qid", "docno"]] for stage in self.get_dependencies()]
            return self.rank_pairs(execution, pd.concat(candidates, ignore_index=True).drop_duplicates(ignore_index=True))
        premises = make_premise_texts(execution.documents.searchable_docnos, execution.documents.read_texts)
        index = self._index_texts(execution, premises, execution.open_collection_cache, "index")
        hits = zip(topics["qid"], index.search(self._encode_topics(execution, topics), MAX_DEPTH), strict=True)
        return build_rankings([row for qid, (docnos, scores) in hits for row in make_ranking_rows(qid, docnos, scores)])

    def score(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Compute the cosine similarities (N,) of topics and premises, with premise vectors in the precision of the index."""
        premises = make_premise_texts(sorted(set(pairs["docno"])), execution.documents.read_texts)
        index = self._index_texts(execution, premises, execution.open_pair_cache, "vectors")
        return self._compute_cosines(execution, pairs, pairs["docno"].to_numpy(), index)

    def get_metadata(self, get_name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"candidates from": get_name(self.extra_candidates)}
