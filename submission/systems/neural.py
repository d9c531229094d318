"""Score topics and premises by a network, and re-rank candidates by these scores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from submission.inference.pair_scoring import score
from submission.inference.ranker_checkpoint import Checkpoint, open_checkpoint
from submission.rankings import ranked
from submission.storage.code_fingerprint import code_fingerprint
from submission.systems.checkpoint_store import Checkpoints
from submission.systems.execution import Execution, Stage
from submission.systems.explanation import Explained, by_network


class NetworkStage(Stage):
    """A stage that scores topic-premise pairs with a network."""

    checkpoint: str

    def opened(self, checkpoints: Checkpoints) -> Checkpoint:
        return checkpoints.network(self.checkpoint, open_checkpoint)

    def decided_by(self, execution: Execution) -> list[str]:
        """Return the checkpoint's fingerprint, the network's code, the device and the precision: all affect results."""
        checkpoint = self.opened(execution.checkpoints)
        code = code_fingerprint(open_checkpoint.__module__, type(checkpoint.ranker).__module__)
        return [checkpoint.fingerprint, code, execution.computed_on]

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Score pairs; completed shards are cached."""
        pairs_hash = hashlib.sha256("\n".join(pairs["qid"] + " " + pairs["docno"]).encode()).hexdigest()
        decided_by = [*self.decided_by(execution), execution.input.fingerprint, pairs_hash]
        code = code_fingerprint(score.__module__, shallow=(__name__,))
        cache = execution.place_of_pairs(f"scores-{self.checkpoint}", code, *decided_by)
        return score(pairs, execution.tokens, self.opened(execution.checkpoints), execution.device, cache, execution.engine)

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Break the score down by kernel, bin, latent term or word."""
        checkpoint, (field, ids) = self.opened(execution.checkpoints), self.read(execution, docno)
        [query] = execution.topics["query"]
        return by_network(checkpoint, checkpoint.tokeniser.query(query), ids, field, execution.device)

    def read(self, execution: Execution, docno: str) -> tuple[str, list[int]]:
        """Return the name and token ids of the document field that the network reads."""
        [premise] = execution.documents.texts({docno})["premise"]
        return "premise", self.opened(execution.checkpoints).tokeniser.premise(premise)


@dataclass(frozen=True)
class Rerank(NetworkStage):
    """Re-ranking of another stage's documents with a network."""

    first: Stage
    checkpoint: str

    def made_of(self) -> tuple[Stage, ...]:
        return (self.first,)

    def search(self, execution: Execution) -> pd.DataFrame:
        """Rank all documents of the first stage by the network's scores."""
        pairs = execution.lists(self.first)[["qid", "docno"]]
        return ranked(pairs.assign(score=self.scores(execution, pairs)), execution.topics)

    def metadata(self, name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"reranks": name(self.first)}
