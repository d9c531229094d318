"""Scoring of topic-premise pairs with a network, and re-ranking by these scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from aragorn.explanation import Explanation
from aragorn.pipeline.retrieval import Retrieval, Stage
from aragorn.pipeline.session import CheckpointStore, Collection, Session

if TYPE_CHECKING:
    import pandas as pd

    from aragorn.inference.checkpoint import RankerCheckpoint

# What imports torch is imported by the methods that compute with networks.


class NetworkStage(Stage):
    """A stage that scores topic-premise pairs with a network."""

    version = 1
    family = "neural re-ranker"
    computes_with: ClassVar[tuple[str, ...]] = ("aragorn.inference.pair_scoring",)
    uses_torch = True
    checkpoint: str

    def get_fingerprint(self, checkpoints: CheckpointStore) -> str:
        return checkpoints.get_fingerprint(self.checkpoint)

    def load_checkpoint(self, checkpoints: CheckpointStore) -> RankerCheckpoint:
        from aragorn.inference.checkpoint import load_checkpoint

        return checkpoints.load_network(self.checkpoint, load_checkpoint)

    def describe_checkpoint(self, session: Session) -> str:
        from aragorn.inference.checkpoint import RankerCheckpoint

        network = session.checkpoints.describe_network(self.checkpoint, RankerCheckpoint)
        return f"{network} {session.computation}"

    def score(self, retrieval: Retrieval, pairs: pd.DataFrame) -> np.ndarray:
        """Score pairs with the network; completed shards are cached."""
        from aragorn.inference.pair_scoring import score_documents

        session = retrieval.session
        name = f"scores-{self.checkpoint}"
        parts = retrieval.open_pair_parts(name, self.describe_results(session), pairs)
        checkpoint = self.load_checkpoint(session.checkpoints)
        return score_documents(
            pairs, retrieval.tokens, checkpoint, session.device, parts, session.engine
        )

    def explain(self, retrieval: Retrieval, qid: str, docno: str) -> Explanation:
        """Break the score down into the network's contributions, e.g. by kernel."""
        from aragorn.inference.pair_explanation import explain_pair

        checkpoint = self.load_checkpoint(retrieval.session.checkpoints)
        field, ids = self.get_model_input(retrieval.collection, docno)
        query_ids = checkpoint.tokeniser.encode_query(retrieval.get_query(qid))
        return explain_pair(checkpoint, query_ids, ids, field, retrieval.session.device)

    def get_model_input(self, collection: Collection, docno: str) -> tuple[str, list[int]]:
        """Return the name and token ids of the document field that the network reads."""
        [premise] = collection.documents.read_texts({docno})["premise"]
        checkpoint = self.load_checkpoint(collection.session.checkpoints)
        return "premise", checkpoint.tokeniser.encode_premise(premise)


@dataclass(frozen=True)
class RerankStage(NetworkStage):
    """Re-ranking of another stage's documents with a network."""

    version = 1
    first_stage: Stage
    checkpoint: str

    def get_dependencies(self) -> tuple[Stage, ...]:
        return (self.first_stage,)

    def get_candidate_stages(self, checkpoints: CheckpointStore) -> tuple[Stage, ...]:
        return (self.first_stage,)

    def search(self, retrieval: Retrieval) -> pd.DataFrame:
        candidates = retrieval.rank(self.first_stage)[["qid", "docno"]]
        return self.rank_pairs(retrieval, candidates)

    def get_metadata(self, get_name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"reranks": get_name(self.first_stage)}
