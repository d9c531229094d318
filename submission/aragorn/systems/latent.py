"""Retrieval with an inverted index of latent terms."""

from dataclasses import dataclass

import pandas as pd

from aragorn.rankings import rank_by_score
from aragorn.retrieval.latent import LatentIndex, load_or_build_latent_index, search
from aragorn.storage.code_fingerprint import code_fingerprint
from aragorn.systems.execution import Execution
from aragorn.systems.neural import NetworkStage


@dataclass(frozen=True)
class LatentStage(NetworkStage):
    """Retrieval from the whole collection with an inverted index of latent terms (SNRM)."""

    checkpoint: str

    def search(self, execution: Execution) -> pd.DataFrame:
        """Rank at most `MAX_DEPTH` documents per topic: those with the highest positive scores."""
        checkpoint, docnos = (
            self.load_checkpoint(execution.checkpoints),
            execution.documents.searchable_docnos,
        )
        return rank_by_score(
            search(execution.topics, docnos, checkpoint, self._get_index(execution)),
            execution.topics,
        )

    def build_index(self, execution: Execution) -> None:
        self._get_index(execution)

    def _get_index(self, execution: Execution) -> LatentIndex:
        checkpoint, documents = self.load_checkpoint(execution.checkpoints), execution.documents
        code_hash = code_fingerprint(load_or_build_latent_index.__module__, shallow=(__name__,))
        cache = execution.open_collection_cache(
            f"index-{self.checkpoint}", code_hash, *self.get_key_parts(execution)
        )
        return load_or_build_latent_index(
            documents.searchable_docnos,
            documents.read_texts,
            checkpoint,
            execution.device,
            cache,
            execution.engine,
        )
