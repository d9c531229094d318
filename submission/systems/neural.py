"""Stages by one network: re-ranking of candidates, and search by sparse latent terms."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from submission import lists
from submission.retrieval.latent import latent_index, nearest
from submission.scoring.checkpoint import Checkpoint, open_checkpoint
from submission.scoring.documents import score
from submission.systems.execution import Execution, Stage
from submission.systems.explained import Explained, by_network
from submission.systems.remembered import Checkpoints


class NetworkStage(Stage):
    """A stage that scores by a network: of a topic and a premise, each as text."""

    checkpoint: str

    def opened(self, checkpoints: Checkpoints) -> Checkpoint:
        return checkpoints.network(self.checkpoint, open_checkpoint)

    def decided_by(self, execution: Execution) -> list[str]:
        """Another device or precision gives other bits."""
        return [self.opened(execution.checkpoints).fingerprint, execution.computed_on]

    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Scores of finished parts are kept."""
        asked = hashlib.sha256("\n".join(pairs["qid"] + " " + pairs["docno"]).encode()).hexdigest()
        decided_by = [*self.decided_by(execution), execution.input.fingerprint, asked]
        kept = execution.place_of_pairs(f"scores-{self.checkpoint}", *decided_by)
        return score(pairs, execution.tokens, self.opened(execution.checkpoints), execution.device, kept, execution.engine)

    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Explain the share of each kernel, bin, latent term or word."""
        opened, (what, document) = self.opened(execution.checkpoints), self.read(execution, docno)
        [query] = execution.topics["query"]
        return by_network(opened, opened.tokeniser.query(query), document, what, execution.device)

    def read(self, execution: Execution, docno: str) -> tuple[str, list[int]]:
        """Return the part of a document that the network reads: its name and its ids."""
        [premise] = execution.documents.texts({docno})["premise"]
        return "premise", self.opened(execution.checkpoints).tokeniser.premise(premise)


@dataclass(frozen=True)
class Rerank(NetworkStage):
    """A network over another stage's documents."""

    first: Stage
    checkpoint: str

    def made_of(self) -> tuple[Stage, ...]:
        return (self.first,)

    def search(self, execution: Execution) -> pd.DataFrame:
        """All documents of the first stage, by the network's scores."""
        pairs = execution.lists(self.first)[["qid", "docno"]]
        return lists.ranked(pairs.assign(score=self.scores(execution, pairs)), execution.topics)

    def metadata(self, name: Callable[[Stage], str]) -> dict[str, Any]:
        return {"reranks": name(self.first)}


@dataclass(frozen=True)
class Latent(NetworkStage):
    """A network that finds its documents in the whole collection, by an inverted index of latent terms."""

    checkpoint: str

    def keeps(self, checkpoints: Checkpoints) -> dict[str, float]:
        """Its index."""
        return {repr(self): 0.75}

    def search(self, execution: Execution) -> pd.DataFrame:
        """The documents with the highest scores above 0."""
        opened, documents = self.opened(execution.checkpoints), execution.documents
        kept = execution.place(f"index-{self.checkpoint}", *self.decided_by(execution))
        index = latent_index(documents.collection, documents.texts, opened, execution.device, kept, execution.engine)
        return lists.ranked(nearest(execution.topics, documents.collection, opened, index), execution.topics)
