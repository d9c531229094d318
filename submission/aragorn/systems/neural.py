"""Scoring of topic-premise pairs with a network, and re-ranking by these scores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from aragorn.explanation import Explanation
from aragorn.systems.execution import CheckpointStore, Execution, Stage
from aragorn.text import normalisation, tokenisers
from aragorn.versions import describe_versions

if TYPE_CHECKING:
    from aragorn.inference.checkpoint import RankerCheckpoint

# What imports torch is imported by the methods that compute with networks.


class NetworkStage(Stage):
    """A stage that scores topic-premise pairs with a network."""

    version = 1
    libraries = ("numpy", "pandas", "torch", "tokenizers")
    checkpoint: str

    def get_sources(self) -> tuple[ModuleType | type, ...]:
        from aragorn.inference import checkpoint, pair_scoring

        return normalisation, tokenisers, checkpoint, pair_scoring

    def get_fingerprint(self, checkpoints: CheckpointStore) -> str:
        return checkpoints.get_fingerprint(self.checkpoint)

    def load_checkpoint(self, checkpoints: CheckpointStore) -> RankerCheckpoint:
        from aragorn.inference.checkpoint import load_checkpoint

        return checkpoints.load_network(self.checkpoint, load_checkpoint)

    def get_key_parts(self, execution: Execution) -> list[str]:
        """Return the checkpoint's fingerprint, the version of its network, and the device and
        precision."""
        from aragorn.inference.checkpoint import RankerCheckpoint

        directory = execution.checkpoints.directory / self.checkpoint
        network_class = RankerCheckpoint.read_network_class(directory)
        return [
            self.get_fingerprint(execution.checkpoints),
            describe_versions(network_class),
            execution.device_and_precision,
        ]

    def score(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Score pairs with the network; completed shards are cached."""
        from aragorn.inference.pair_scoring import score_documents

        pairs_hash = hashlib.sha256(
            "\n".join(pairs["qid"] + " " + pairs["docno"]).encode()
        ).hexdigest()
        key_parts = [*self.get_key_parts(execution), execution.input.fingerprint, pairs_hash]
        parts = execution.get_pair_parts(
            f"scores-{self.checkpoint}", self.describe_sources(), *key_parts
        )
        checkpoint = self.load_checkpoint(execution.checkpoints)
        return score_documents(
            pairs, execution.tokens, checkpoint, execution.device, parts, execution.engine
        )

    def explain(self, execution: Execution, qid: str, docno: str) -> Explanation:
        """Break the score down into the network's contributions, e.g. by kernel, query term or
        latent term."""
        from aragorn.inference.pair_explanation import explain_pair

        checkpoint = self.load_checkpoint(execution.checkpoints)
        field, ids = self.get_model_input(execution, docno)
        [query] = execution.topics["query"]
        query_ids = checkpoint.tokeniser.encode_query(query)
        return explain_pair(checkpoint, query_ids, ids, field, execution.device)

    def get_model_input(self, execution: Execution, docno: str) -> tuple[str, list[int]]:
        """Return the name and token ids of the document field that the network reads."""
        [premise] = execution.documents.read_texts({docno})["premise"]
        return "premise", self.load_checkpoint(execution.checkpoints).tokeniser.encode_premise(
            premise
        )


@dataclass(frozen=True)
class RerankStage(NetworkStage):
    """Re-ranking of another stage's documents with a network."""

    version = 1
    first_stage: Stage
    checkpoint: str

    def get_dependencies(self) -> tuple[Stage, ...]:
        return (self.first_stage,)

    def search(self, execution: Execution) -> pd.DataFrame:
        """Rank all documents of the first stage by the network's scores."""
        return self.rank_pairs(execution, execution.get_ranking(self.first_stage)[["qid", "docno"]])

    def get_metadata(self, get_name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"reranks": get_name(self.first_stage)}
