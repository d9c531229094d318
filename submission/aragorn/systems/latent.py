"""Retrieval with an inverted index of latent terms."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec

from aragorn.bounds import Exponent
from aragorn.cache import Parts
from aragorn.index import inverted, latent
from aragorn.index.latent import LatentIndex, build_latent_index, search
from aragorn.pipeline.collection import Artifact, Collection
from aragorn.pipeline.retrieval import Retrieval
from aragorn.pipeline.session import CheckpointStore, Session
from aragorn.rankings import rank_by_score
from aragorn.systems.neural import NetworkStage

if TYPE_CHECKING:
    import pandas as pd

    from aragorn.inference.checkpoint import RankerCheckpoint


class LatentParameters(msgspec.Struct, frozen=True):
    """Parameters of SNRM that can be changed without training."""

    length: Exponent  # exponent of the number of windows by which the vector of a text is divided


@dataclass(frozen=True)
class LatentIndexArtifact(Artifact[LatentIndex]):
    """The index of the latent terms of the collection's premises."""

    stage: LatentStage

    title = "latent index"

    @property
    def name(self) -> str:
        return f"index-{self.stage.checkpoint}"

    def describe(self, session: Session) -> str:
        return self.stage.describe_results(session)

    def build(self, collection: Collection, directory: Path) -> None:
        session = collection.session
        documents = collection.documents
        build_latent_index(
            directory,
            documents.searchable_docnos,
            documents.read_texts,
            self.stage.load_checkpoint(session.checkpoints),
            session.device,
            self._open_parts(collection),
            session.engine,
        )

    def open(self, collection: Collection, directory: Path) -> LatentIndex:
        self._open_parts(collection).remove()
        return LatentIndex(directory, len(collection.documents.searchable_docnos))

    def _open_parts(self, collection: Collection) -> Parts:
        """Open the shards of the index, which are kept until it is finished."""
        key = collection.compute_key(self.describe(collection.session))
        return collection.session.cache.parts(f"{self.name}-parts", key)


@dataclass(frozen=True)
class LatentStage(NetworkStage):
    """Retrieval with an inverted index of latent terms (SNRM), with other `parameters` if any."""

    version = 1
    family = "neural, first stage"
    parameters_type = LatentParameters
    checkpoint: str
    parameters: LatentParameters | None = None

    def get_sources(self) -> tuple[ModuleType | type, ...]:
        return (*super().get_sources(), inverted, latent)

    def load_checkpoint(self, checkpoints: CheckpointStore) -> RankerCheckpoint:
        from aragorn.inference.checkpoint import RankerCheckpoint

        checkpoint = super().load_checkpoint(checkpoints)
        if self.parameters is None:
            return checkpoint
        network = copy(checkpoint.network)
        network.config = replace(network.config, length=self.parameters.length)
        # without its path, because other processes would load the parameters of the checkpoint
        return RankerCheckpoint(
            network, checkpoint.tokeniser, checkpoint.fingerprint, precision=checkpoint.precision
        )

    def describe_checkpoint(self, session: Session) -> str:
        return f"{super().describe_checkpoint(session)} {self.parameters}"

    def search(self, retrieval: Retrieval) -> pd.DataFrame:
        """Rank at most `MAX_DEPTH` documents per topic: those with the highest positive scores."""
        checkpoint = self.load_checkpoint(retrieval.session.checkpoints)
        docnos = retrieval.collection.documents.searchable_docnos
        index = retrieval.collection.get(LatentIndexArtifact(self))
        hits = search(retrieval.topics, docnos, checkpoint, index)
        return rank_by_score(hits, retrieval.topics)

    def build_index(self, collection: Collection) -> None:
        collection.get(LatentIndexArtifact(self))
