"""Base classes of components and stages, and the execution that computes and caches their
results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from threading import Lock, RLock
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
import torch

from aragorn.engine.base import LOCAL_ENGINE, Engine
from aragorn.errors import CheckpointError, as_memory_errors
from aragorn.explanation import Explanation
from aragorn.inference.checkpoint_io import LoadedCheckpoint, NetworkCheckpoint
from aragorn.inference.pair_scoring import TokenCache
from aragorn.io.dataset import Dataset
from aragorn.io.document_store import DocumentStore, input_code_fingerprint, open_document_store
from aragorn.rankings import decode_rankings, encode_rankings, rank_by_score, validate_rankings
from aragorn.storage.artifact_store import ArtifactStore
from aragorn.storage.atomic_files import recover_directory
from aragorn.storage.cache_directory import CacheDirectory
from aragorn.storage.checkpoint_directory import as_checkpoint_read_errors, read_config
from aragorn.storage.code_fingerprint import code_fingerprint

T = TypeVar("T")
CheckpointT = TypeVar("CheckpointT", bound=NetworkCheckpoint[Any, Any])

# Modules that pass inputs to components. Each input has a separate key, so these modules are hashed
# without their imports.
SERVICES = (__name__, "aragorn.storage.checkpoint_directory")


class Memo:
    """An in-memory cache of results, by owner and name; a failed computation is repeated."""

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        # by owner and name; one thread computes, while others wait
        self._locks: dict[Hashable, RLock] = {}
        self._lock = Lock()  # of the locks

    def get_or_compute(self, owner: Hashable, name: str, compute: Callable[[], T]) -> T:
        """Return the result of the first successful call of `compute` for this owner and name."""
        with self._lock:
            lock = self._locks.setdefault((owner, name), RLock())
        with lock:
            if (owner, name) not in self._results:
                with as_memory_errors(name):
                    self._results[owner, name] = compute()
            return cast(T, self._results[owner, name])


class CheckpointStore:
    """The checkpoints in a directory; each is loaded once, on first use."""

    @as_checkpoint_read_errors()
    def __init__(self, directory: Path, precision: torch.dtype | None = None) -> None:
        """Open the store; `precision` is the precision of its networks on the CPU (None:
        float32)."""
        if directory.is_file():
            raise CheckpointError(
                f"{directory}: a file; use a directory of checkpoints, or unpack the archive"
            )
        self.directory, self.precision = directory, precision
        self._memo = Memo()

    @as_checkpoint_read_errors()
    def has(self, name: str) -> bool:
        """Restore a checkpoint whose replacement was interrupted; return whether it exists, intact
        or damaged."""
        recover_directory(self.directory / name)
        return (self.directory / name).is_dir()

    def load_config(self, name: str, config_type: type[T]) -> T:
        """Load a checkpoint that consists only of a config.json, read as `config_type`."""
        return self._memo.get_or_compute(
            config_type.__name__, name, lambda: read_config(self.directory / name, config_type)
        )

    def load_network(self, name: str, loader: Callable[[Path], CheckpointT]) -> CheckpointT:
        """Load a network's checkpoint, with the precision of this store."""
        checkpoint = self._memo.get_or_compute(loader, name, lambda: loader(self.directory / name))
        return replace(checkpoint, precision=self.precision)


class Component(ABC):
    """Cached computation of a system; subclasses must be frozen dataclasses, so that equal
    components are computed once."""

    checkpoint: str | None  # name of the checkpoint; None: the component has none

    def get_dependencies(self) -> tuple[Component, ...]:
        """Return the components that this component depends on directly."""
        return ()

    def load_checkpoint(self, checkpoints: CheckpointStore) -> LoadedCheckpoint | None:
        """Load the checkpoint; return None if the component has none."""
        return None

    def find_missing_checkpoints(self, checkpoints: CheckpointStore) -> list[str]:
        """Return the names of missing checkpoints, dependencies first."""
        required_names = dict.fromkeys(
            component.checkpoint for component in iter_components(self) if component.checkpoint
        )
        return [name for name in required_names if not checkpoints.has(name)]

    def get_fingerprints(self, checkpoints: CheckpointStore) -> dict[str, str]:
        """Return the fingerprints of all required checkpoints by name. Raises CheckpointError if
        one cannot be loaded."""
        by_name = {
            component.checkpoint: component.load_checkpoint(checkpoints)
            for component in iter_components(self)
        }
        return {
            name: checkpoint.fingerprint
            for name, checkpoint in by_name.items()
            if name and checkpoint
        }

    def build_index(self, execution: Execution) -> None:  # noqa: B027  most components have no index
        """Build and cache everything that this component needs of the collection and can compute
        without topics."""

    def select_unindexed(self, execution: Execution, documents: pd.DataFrame) -> pd.DataFrame:
        """Return the `documents` without results that `build_index` caches by text: by default
        all."""
        return documents

    def is_indexed(self, execution: Execution) -> bool:
        """Return whether `build_index` has cached all results that would take long to compute for a
        query."""
        return True

    def hash_code(self) -> str:
        """Hash the code of this class and everything it imports, except the imports of SERVICES."""
        modules = {base.__module__ for base in type(self).__mro__ if issubclass(base, Component)}
        return code_fingerprint(*sorted(modules.difference(SERVICES)), shallow=SERVICES)

    def get_key_parts(self, execution: Execution) -> list[str]:
        """Return the parts of `Execution.compute_cache_key` that this class adds: by default the
        checkpoint's fingerprint."""
        checkpoint = self.load_checkpoint(execution.checkpoints)
        return [] if checkpoint is None else [checkpoint.fingerprint]


class Stage(Component):
    """A retrieval or re-ranking method; equal stages produce equal rankings.

    If the input supplies a ranking, a stage ranks exactly the documents of this ranking; otherwise
    it searches.
    """

    def rank(self, execution: Execution) -> pd.DataFrame:
        """Rank documents for each topic; callers use `Execution.get_ranking`, which caches the
        result."""
        candidates = execution.supplied_ranking
        return (
            self.search(execution) if candidates is None else self.rank_pairs(execution, candidates)
        )

    def rank_pairs(self, execution: Execution, pairs: pd.DataFrame) -> pd.DataFrame:
        """Rank pairs `qid docno` by score."""
        return rank_by_score(pairs.assign(score=self.score(execution, pairs)), execution.topics)

    def score_document(self, execution: Execution, qid: str, docno: str) -> float:
        """Compute the score of a single document for a topic."""
        return float(self.score(execution, pd.DataFrame({"qid": [qid], "docno": [docno]})).item())

    @abstractmethod
    def search(self, execution: Execution) -> pd.DataFrame:
        """Rank documents of the collection; called if no ranking is supplied."""

    @abstractmethod
    def score(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Compute the scores (N,) of N pairs `qid docno`, including pairs that the stage would not
        retrieve."""

    @abstractmethod
    def explain(self, execution: Execution, qid: str, docno: str) -> Explanation:
        """Explain a document's score for a topic. Raises UsageError if the score comes from a
        supplied ranking."""

    def format_formula(self, checkpoints: CheckpointStore) -> str:
        """Return the scoring formula with the checkpoint's parameters on one line; "" if there is
        none."""
        return ""

    def get_metadata(self, get_name: Callable[[Stage], str]) -> dict[str, Any]:
        """Return the stage's entries for ir-metadata.yml; `get_name` returns the name of a
        dependency."""
        return {}

    def describe_input(self, file: Path) -> str:
        """Describe, for ir-metadata.yml, the documents that are ranked if a ranking is supplied in
        `file`."""
        return f"the documents in {file.name}"


def iter_components(component: Component) -> Iterator[Component]:
    """Yield a component and its transitive dependencies, each once, dependencies first."""
    visited: set[Component] = set()

    def visit(current: Component) -> Iterator[Component]:
        if current not in visited:
            visited.add(current)
            for dependency in current.get_dependencies():
                yield from visit(dependency)
            yield current

    return visit(component)


class Execution:
    """Execution of stages on one input, which computes and caches the results of each."""

    def __init__(
        self,
        dataset: Dataset,
        checkpoints: CheckpointStore,
        device: torch.device,
        cache: CacheDirectory,
        engine: Engine = LOCAL_ENGINE,
    ) -> None:
        """Create an execution; `engine` distributes shards, which are computed on `device`."""
        self.input, self.checkpoints, self.cache_directory = dataset, checkpoints, cache
        self.device, self.engine = device, engine
        self.stopwatch, self._memo = dataset.stopwatch, Memo()
        self.errors: dict[Stage, Exception] = {}  # of rankings

    @property
    def device_and_precision(self) -> str:
        """Device type, followed by the precision unless it is float32."""
        precision = self.checkpoints.precision
        return self.device.type if precision is None else f"{self.device.type} {precision}"

    @property
    def topics(self) -> pd.DataFrame:
        """Topics `qid query`."""
        return self.input.topics

    @cached_property
    def documents(self) -> DocumentStore:
        """Document store, opened on first use."""
        return open_document_store(self.input, self.cache_directory)

    @cached_property
    def tokens(self) -> TokenCache:
        """Token ids of topics and documents."""
        return TokenCache(self.topics, self.documents.read_texts, self.stopwatch)

    @cached_property
    def supplied_ranking(self) -> pd.DataFrame | None:
        """Supplied ranking `qid docno rank score`; None if there is none."""
        return self.input.get_supplied_ranking(self.documents.find_unknown)

    def get_ranking(self, stage: Stage) -> pd.DataFrame:
        """Return a stage's ranking, which is computed once; if the computation failed, raise its
        error again."""
        if stage in self.errors:
            raise self.errors[stage]
        try:
            return self.compute_once(stage, "ranking", lambda: self._load_or_rank(stage))
        except Exception as error:
            self.errors[stage] = error
            raise

    def compute_once(self, owner: Hashable, name: str, compute: Callable[[], T]) -> T:
        """Return the result of the first successful call of `compute` for this owner and name."""
        return self._memo.get_or_compute(owner, name, compute)

    def compute_once_per_collection(
        self, owner: Hashable, name: str, compute: Callable[[], T]
    ) -> T:
        """Return the result of the first successful call of `compute`, which may depend on the
        collection but not on the topics."""
        return self.compute_once(owner, name, compute)

    def compute_cache_key(self, component: Component) -> str:
        """Hash everything that affects a component's results."""
        inputs = [self.input.fingerprint, input_code_fingerprint()]
        parts = [repr(component), *inputs, component.hash_code(), *component.get_key_parts(self)]
        return sha256(
            "\n".join([*parts, *map(self.compute_cache_key, component.get_dependencies())]).encode()
        ).hexdigest()

    def open_collection_cache(self, name: str, code_hash: str, *key_parts: str) -> ArtifactStore:
        """Open the cache of an artifact computed from the collection, keyed by collection, code and
        `key_parts`."""
        key = " ".join(
            [self.input.corpus_fingerprint, input_code_fingerprint(), code_hash, *key_parts]
        )
        return self.cache_directory.open_store(name, key)

    def open_checkpoint_cache(self, name: str, code_hash: str, *key_parts: str) -> ArtifactStore:
        """Open the cache of an artifact that all inputs share, keyed by code and `key_parts`, e.g.
        the checkpoint's."""
        return self.cache_directory.open_store(name, " ".join([code_hash, *key_parts]))

    def open_pair_cache(self, name: str, code_hash: str, *key_parts: str) -> ArtifactStore:
        """Open the cache of an artifact that also depends on topic-document pairs; `key_parts` must
        identify the pairs."""
        return self.open_collection_cache(name, code_hash, *key_parts)

    def _load_or_rank(self, stage: Stage) -> pd.DataFrame:
        name = f"ranking-{type(stage).__name__.removesuffix('Stage').lower()}"
        if stage.checkpoint:
            name += f"-{stage.checkpoint}"
        cache = self.cache_directory.open_store(name, self.compute_cache_key(stage))
        return decode_rankings(
            cache.load_or_build(
                "ranking.msgpack", lambda: encode_rankings(self._rank_and_validate(stage))
            )
        )

    def _rank_and_validate(self, stage: Stage) -> pd.DataFrame:
        ranking = stage.rank(self)
        validate_rankings(ranking, self.topics, self.documents.find_unknown(ranking["docno"]))
        return ranking
