"""Retrieval with an inverted index of latent terms."""

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pandas as pd

from aragorn.cache import Parts
from aragorn.index import inverted, latent
from aragorn.index.latent import LatentIndex, build_latent_index, search
from aragorn.rankings import rank_by_score
from aragorn.systems.execution import Execution
from aragorn.systems.neural import NetworkStage


@dataclass(frozen=True)
class LatentStage(NetworkStage):
    """Retrieval from the whole collection with an inverted index of latent terms (SNRM)."""

    version = 1
    checkpoint: str

    def get_sources(self) -> tuple[ModuleType | type, ...]:
        return (*super().get_sources(), inverted, latent)

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
        key = execution.get_collection_key(self.describe_sources(), *self.get_key_parts(execution))
        docnos = documents.searchable_docnos

        def build(directory: Path, parts: Parts) -> None:
            build_latent_index(
                directory,
                docnos,
                documents.read_texts,
                checkpoint,
                execution.device,
                parts,
                execution.engine,
            )

        return LatentIndex(execution.get_index(f"index-{self.checkpoint}", key, build), len(docnos))
