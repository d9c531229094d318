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
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
import pandas as pd

from aragorn.cache import Cache, Parts
from aragorn.engine.base import LOCAL_ENGINE, Engine
from aragorn.engine.device import FLOAT32
from aragorn.errors import CheckpointError, as_memory_errors
from aragorn.explanation import Explanation
from aragorn.io import collection, runs, tirex, touche
from aragorn.io.dataset import Dataset
from aragorn.io.document_store import DocumentStore, open_document_store
from aragorn.rankings import decode_rankings, encode_rankings, rank_by_score, validate_rankings
from aragorn.storage.atomic_files import recover_directory
from aragorn.storage.checkpoint_directory import as_checkpoint_read_errors, read_config
from aragorn.versions import describe_versions, get_library_version

if TYPE_CHECKING:  # they import torch, which lexical systems do not need
    from aragorn.inference.checkpoint import LoadedCheckpoint, NetworkCheckpoint
    from aragorn.inference.pair_scoring import TokenCache

T = TypeVar("T")
CheckpointT = TypeVar("CheckpointT", bound="NetworkCheckpoint[Any, Any]")


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
    def __init__(self, directory: Path, precision: str = FLOAT32) -> None:
        """Open the store; `precision` is the precision of its networks on the CPU."""
        if directory.is_file():
            raise CheckpointError(
                f"{directory}: a file; use a directory of checkpoints, or unpack the archive"
            )
        self.directory = directory
        self.precision = precision
        self._memo = Memo()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle or copy the store without its loaded checkpoints."""
        return CheckpointStore, (self.directory.absolute(), self.precision)

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

    def get_fingerprint(self, name: str) -> str:
        """Return the fingerprint of a network's checkpoint; load nothing."""
        from aragorn.inference.checkpoint import read_fingerprint

        return self._memo.get_or_compute(
            "fingerprint", name, lambda: read_fingerprint(self.directory / name)
        )


class Component(ABC):
    """Cached computation of a system; subclasses must be frozen dataclasses, so that equal
    components are computed once."""

    version: ClassVar[int]  # raised when results of the same inputs change
    libraries: ClassVar[tuple[str, ...]] = ("numpy", "pandas")  # that compute its results
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
            component.checkpoint: component.get_fingerprint(checkpoints)
            for component in iter_components(self)
        }
        return {name: value for name, value in by_name.items() if name and value}

    def get_fingerprint(self, checkpoints: CheckpointStore) -> str | None:
        """Return the fingerprint of the checkpoint, without loading a network; None if the
        component has none."""
        checkpoint = self.load_checkpoint(checkpoints)
        return None if checkpoint is None else checkpoint.fingerprint

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

    def get_sources(self) -> tuple[ModuleType | type, ...]:
        """Return the modules and classes whose versions the results of this component have."""
        return ()

    def describe_sources(self) -> str:
        """List the versions of the results that this component contains, without its own."""
        return describe_versions(*self.get_sources(), libraries=self.libraries)

    def get_key_parts(self, execution: Execution) -> list[str]:
        """Return the parts of the key of this component's results, besides versions: by default the
        checkpoint's fingerprint."""
        fingerprint = self.get_fingerprint(execution.checkpoints)
        return [] if fingerprint is None else [fingerprint]


class Stage(Component):
    """A retrieval or re-ranking method; equal stages produce equal rankings.

    If the input supplies a ranking, a stage ranks exactly the documents of this ranking; otherwise
    it searches.
    """

    def rank(self, execution: Execution) -> pd.DataFrame:
        """Rank documents for each topic; callers use `Execution.get_ranking`, which caches the
        result."""
        candidates = execution.input_run
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
        """Explain a document's score for a topic. Raises UsageError if the score comes from an input
        run."""

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
        device: str,
        cache: Cache,
        engine: Engine = LOCAL_ENGINE,
    ) -> None:
        """Create an execution; `engine` distributes shards, which are computed on `device`."""
        self.input = dataset
        self.checkpoints = checkpoints
        self.cache = cache
        self.device = device
        self.engine = engine
        self.stopwatch = dataset.stopwatch
        self._memo = Memo()
        self.errors: dict[Stage, Exception] = {}  # of rankings

    @property
    def device_and_precision(self) -> str:
        """Device type, followed by precision and engine unless it is float32."""
        precision = self.checkpoints.precision
        engine = f"openvino {get_library_version('openvino')}"
        return self.device if precision == FLOAT32 else f"{self.device} torch.{precision} {engine}"

    @property
    def topics(self) -> pd.DataFrame:
        """Topics `qid query`."""
        return self.input.topics

    @cached_property
    def documents(self) -> DocumentStore:
        """Document store, opened on first use."""
        return open_document_store(self.input, self.cache)

    @cached_property
    def tokens(self) -> TokenCache:
        """Token ids of topics and documents."""
        from aragorn.inference.pair_scoring import TokenCache

        return TokenCache(self.topics, self.documents.read_texts, self.stopwatch)

    @cached_property
    def input_run(self) -> pd.DataFrame | None:
        """Input run `qid docno rank score`; None if there is none."""
        return self.input.get_input_run(self.documents.find_unknown)

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
        versions = describe_versions(touche, tirex, collection, runs, type(component))
        parts = [
            repr(component),
            self.input.fingerprint,
            versions,
            component.describe_sources(),
            *component.get_key_parts(self),
        ]
        return sha256(
            "\n".join([*parts, *map(self.compute_cache_key, component.get_dependencies())]).encode()
        ).hexdigest()

    def get_collection_key(self, *parts: str) -> str:
        """Return the cache key of a result of the collection and of other `parts`."""
        versions = describe_versions(touche, tirex, collection)
        return " ".join([self.input.corpus_fingerprint, versions, *parts])

    def get_index(self, name: str, key: str, build: Callable[[Path, Parts], None]) -> Path:
        """Return the directory of an index; `build` writes it, and its shards as parts that are
        removed afterwards."""
        parts = self.cache.parts(f"{name}-parts", key)
        directory = self.cache.directory(name, key, lambda path: build(path, parts))
        parts.remove()
        return directory

    def get_pair_parts(self, name: str, *key_parts: str) -> Parts | None:
        """Return the parts of a result that also depends on topic-document pairs, which `key_parts`
        identify; None if such results stay in memory."""
        return self.cache.parts(name, self.get_collection_key(*key_parts))

    def _load_or_rank(self, stage: Stage) -> pd.DataFrame:
        name = f"ranking-{type(stage).__name__.removesuffix('Stage').lower()}"
        if stage.checkpoint:
            name += f"-{stage.checkpoint}"
        key = self.compute_cache_key(stage)
        return decode_rankings(
            self.cache.get_or_build(
                name, key, lambda: encode_rankings(self._rank_and_validate(stage))
            )
        )

    def _rank_and_validate(self, stage: Stage) -> pd.DataFrame:
        ranking = stage.rank(self)
        validate_rankings(ranking, self.topics, self.documents.find_unknown(ranking["docno"]))
        return ranking
