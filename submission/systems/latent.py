"""Search the whole collection by sparse latent terms."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from submission.rankings import ranked
from submission.retrieval.latent import latent_index, nearest
from submission.storage.code_fingerprint import code_fingerprint
from submission.systems.execution import Execution
from submission.systems.neural import NetworkStage


@dataclass(frozen=True)
class Latent(NetworkStage):
    """Retrieval from the whole collection with an inverted index of latent terms."""

    checkpoint: str

    def search(self, execution: Execution) -> pd.DataFrame:
        """Return the documents with the highest positive scores."""
        checkpoint, documents = self.opened(execution.checkpoints), execution.documents
        code = code_fingerprint(latent_index.__module__, shallow=(__name__,))
        cache = execution.place(f"index-{self.checkpoint}", code, *self.decided_by(execution))
        index = latent_index(documents.collection, documents.texts, checkpoint, execution.device, cache, execution.engine)
        return ranked(nearest(execution.topics, documents.collection, checkpoint, index), execution.topics)
