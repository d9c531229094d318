"""Scoring of topic-premise pairs with a network, and re-ranking by these scores."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from aragorn.inference.pair_scoring import score_documents
from aragorn.inference.ranker_checkpoint import RankerCheckpoint, load_checkpoint
from aragorn.storage.code_fingerprint import code_fingerprint
from aragorn.systems.execution import CheckpointStore, Execution, Stage
from aragorn.systems.explanation import ScoreExplanation, explain_network_score


class NetworkStage(Stage):
    """A stage that scores topic-premise pairs with a network."""

    checkpoint: str

    def load_checkpoint(self, checkpoints: CheckpointStore) -> RankerCheckpoint:
        return checkpoints.load_network(self.checkpoint, load_checkpoint)

    def get_key_parts(self, execution: Execution) -> list[str]:
        """Return the checkpoint's fingerprint, the hash of the network's code, and the device and
        precision."""
        checkpoint = self.load_checkpoint(execution.checkpoints)
        # not that of `load_checkpoint`, a method inherited from another module
        code_hash = code_fingerprint(
            RankerCheckpoint.__module__, type(checkpoint.network).__module__
        )
        return [checkpoint.fingerprint, code_hash, execution.device_and_precision]

    def score(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Score pairs with the network; completed shards are cached."""
        pairs_hash = hashlib.sha256(
            "\n".join(pairs["qid"] + " " + pairs["docno"]).encode()
        ).hexdigest()
        key_parts = [*self.get_key_parts(execution), execution.input.fingerprint, pairs_hash]
        code_hash = code_fingerprint(score_documents.__module__, shallow=(__name__,))
        cache = execution.open_pair_cache(f"scores-{self.checkpoint}", code_hash, *key_parts)
        checkpoint = self.load_checkpoint(execution.checkpoints)
        return score_documents(
            pairs, execution.tokens, checkpoint, execution.device, cache, execution.engine
        )

    def explain(self, execution: Execution, qid: str, docno: str) -> ScoreExplanation:
        """Break the score down into the network's contributions, e.g. by kernel, query term or
        latent term."""
        checkpoint, (field, ids) = (
            self.load_checkpoint(execution.checkpoints),
            self.get_model_input(execution, docno),
        )
        [query] = execution.topics["query"]
        return explain_network_score(
            checkpoint, checkpoint.tokeniser.encode_query(query), ids, field, execution.device
        )

    def get_model_input(self, execution: Execution, docno: str) -> tuple[str, list[int]]:
        """Return the name and token ids of the document field that the network reads."""
        [premise] = execution.documents.read_texts({docno})["premise"]
        return "premise", self.load_checkpoint(execution.checkpoints).tokeniser.encode_premise(
            premise
        )


@dataclass(frozen=True)
class RerankStage(NetworkStage):
    """Re-ranking of another stage's documents with a network."""

    first_stage: Stage
    checkpoint: str

    def get_dependencies(self) -> tuple[Stage, ...]:
        return (self.first_stage,)

    def search(self, execution: Execution) -> pd.DataFrame:
        """Rank all documents of the first stage by the network's scores."""
        return self.rank_pairs(execution, execution.get_ranking(self.first_stage)[["qid", "docno"]])

    def get_metadata(self, get_name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"reranks": get_name(self.first_stage)}
