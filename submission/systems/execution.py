"""Base classes of stages, and the execution that computes and caches their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch

from submission.data.dataset import Dataset
from submission.data.document_store import DocumentStore, documents_code, open_document_store
from submission.engine.base import LOCAL_ENGINE, Engine
from submission.inference.checkpoint_io import LoadedCheckpoint
from submission.inference.token_ids import TokenCache, TokenSource
from submission.rankings import decode_rankings, encode_rankings, rank_by_score, validate_rankings
from submission.storage.artifact_store import ArtifactStore
from submission.storage.cache_directory import CacheDirectory
from submission.storage.code_fingerprint import code_fingerprint
from submission.systems.checkpoint_store import CheckpointStore, Memo
from submission.systems.explanation import ScoreExplanation

T = TypeVar("T")

# Modules that pass a component its inputs, each of which has a separate key: hashed without their imports.
SERVICES = (__name__, "submission.systems.checkpoint_store", "submission.storage.checkpoint_directory")


class Component(ABC):
    """A part of a system; subclasses are frozen dataclasses, so that equal components are computed once."""

    checkpoint: str | None  # name of its checkpoint, if any

    def dependencies(self) -> tuple[Component, ...]:
        """Return the components it depends on."""
        return ()

    def load_checkpoint(self, checkpoints: CheckpointStore) -> LoadedCheckpoint | None:
        """Load its checkpoint, if it has one."""
        return None

    def find_missing_checkpoints(self, checkpoints: CheckpointStore) -> list[str]:
        """Return the names of missing checkpoints, dependencies first."""
        required = dict.fromkeys(component.checkpoint for component in iter_components(self) if component.checkpoint)
        return [name for name in required if not checkpoints.has(name)]

    def hash_code(self) -> str:
        """Hash the code of its class with all imports, except the imports of SERVICES."""
        modules = {base.__module__ for base in type(self).__mro__ if issubclass(base, Component)}
        return code_fingerprint(*sorted(modules.difference(SERVICES)), shallow=SERVICES)

    def key_parts(self, execution: Execution) -> list[str]:
        """Return cache-key parts beyond component, input, code and dependencies."""
        checkpoint = self.load_checkpoint(execution.checkpoints)
        return [] if checkpoint is None else [checkpoint.fingerprint]


class Stage(Component):
    """A method that ranks documents for each topic; equal stages produce equal rankings.

    If the input supplies a ranking, a stage ranks exactly its documents; otherwise it searches.
    """

    def rank(self, execution: Execution) -> pd.DataFrame:
        """Rank documents; call `Execution.get_ranking` instead, which caches the result."""
        candidates = execution.supplied_ranking
        if candidates is None:
            return self.search(execution)
        return self.rank_pairs(execution, candidates)

    def rank_pairs(self, execution: Execution, pairs: pd.DataFrame) -> pd.DataFrame:
        """Rank pairs `qid docno` by score."""
        return rank_by_score(pairs.assign(score=self.score(execution, pairs)), execution.topics)

    def score_document(self, execution: Execution, qid: str, docno: str) -> float:
        """Compute the score of one document."""
        return float(self.score(execution, pd.DataFrame({"qid": [qid], "docno": [docno]})).item())

    @abstractmethod
    def search(self, execution: Execution) -> pd.DataFrame:
        """Search the collection; used if no ranking is supplied."""

    @abstractmethod
    def score(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Compute the scores (N,) of pairs `qid docno`, also for documents it would not retrieve."""

    @abstractmethod
    def explain(self, execution: Execution, qid: str, docno: str) -> ScoreExplanation:
        """Explain a document's score for a topic. Raises UsageError if the score was supplied."""

    def formula(self, checkpoints: CheckpointStore) -> str:
        """Return the checkpoint's formula as a line of text."""
        return ""

    def metadata(self, name: Callable[[Stage], str]) -> dict[str, Any]:
        """Return its ir-metadata.yml entries; `name` names its dependencies."""
        return {}

    def describe_input(self, file: Path) -> str:
        """Describe the ranked documents if a ranking is supplied in a file."""
        return f"the documents in {file.name}"


def iter_components(component: Component) -> Iterator[Component]:
    """Yield a component and its transitive dependencies, each once, dependencies first."""
    visited: set[Component] = set()

    def visit(current: Component) -> Iterator[Component]:
        if current not in visited:
            visited.add(current)
            for dependency in current.dependencies():
                yield from visit(dependency)
            yield current

    return visit(component)


class Execution:
    """Inputs of all stages and the memo of their results."""

    def __init__(
        self,
        dataset: Dataset,
        checkpoints: CheckpointStore,
        device: torch.device,
        cache: CacheDirectory,
        engine: Engine = LOCAL_ENGINE,
    ) -> None:
        """Create an execution; `engine` computes shards on `device`."""
        self.input, self.checkpoints, self.working_directory = dataset, checkpoints, cache
        self.device, self.engine = device, engine
        self.stopwatch, self._memo = dataset.stopwatch, Memo()

    @property
    def device_and_precision(self) -> str:
        """Return the device type, plus the encoder precision unless it is float32."""
        precision = self.checkpoints.precision
        return self.device.type if precision is None else f"{self.device.type} {precision}"

    @property
    def topics(self) -> pd.DataFrame:
        """Return the topics `qid query`."""
        return self.input.topics

    @cached_property
    def documents(self) -> DocumentStore:
        """Open the document store."""
        return open_document_store(self.input, self.working_directory)

    @cached_property
    def tokens(self) -> TokenSource:
        """Return the token ids of topics and documents."""
        return TokenCache(self.topics, self.documents.read_texts, self.stopwatch)

    @cached_property
    def supplied_ranking(self) -> pd.DataFrame | None:
        """Return the supplied ranking, if any."""
        return self.input.supplied_ranking(self.documents.find_unknown)

    def get_ranking(self, stage: Stage) -> pd.DataFrame:
        """Return a stage's ranking, or raise the error of its first computation."""
        return self.compute_once(stage, "ranking", lambda: self._load_or_rank(stage))

    def compute_once(self, owner: Hashable, name: str, compute: Callable[[], T]) -> T:
        """Return, or re-raise, the outcome of the first call of `compute`."""
        return self._memo.get_or_compute(owner, name, compute)

    def compute_once_per_collection(self, owner: Hashable, name: str, compute: Callable[[], T]) -> T:
        """Compute once a value that depends only on the collection."""
        return self.compute_once(owner, name, compute)

    def compute_cache_key(self, component: Component) -> str:
        """Hash everything that affects a component's results."""
        inputs = [self.input.fingerprint, documents_code()]
        parts = [repr(component), *inputs, component.hash_code(), *component.key_parts(self)]
        return sha256("\n".join([*parts, *map(self.compute_cache_key, component.dependencies())]).encode()).hexdigest()

    def open_collection_cache(self, name: str, code: str, *key_parts: str) -> ArtifactStore:
        """Open the store of an artifact of the collection; `code` is the hash of the code that computes it."""
        key = " ".join([self.input.corpus_fingerprint, documents_code(), code, *key_parts])
        return self.working_directory.open_store(name, key)

    def open_pair_cache(self, name: str, code: str, *key_parts: str) -> ArtifactStore:
        """Open the store of an artifact of the topics' documents."""
        return self.open_collection_cache(name, code, *key_parts)

    def _load_or_rank(self, stage: Stage) -> pd.DataFrame:
        kind = type(stage).__name__.removesuffix("Stage").lower()
        name = f"ranking-{kind}-{stage.checkpoint}" if stage.checkpoint else f"ranking-{kind}"
        cache = self.working_directory.open_store(name, self.compute_cache_key(stage))
        return decode_rankings(cache.load_or_build("ranking.msgpack", lambda: encode_rankings(self._rank_and_validate(stage))))

    def _rank_and_validate(self, stage: Stage) -> pd.DataFrame:
        ranking = stage.rank(self)
        validate_rankings(ranking, self.topics, self.documents.find_unknown(ranking["docno"]))
        return ranking
