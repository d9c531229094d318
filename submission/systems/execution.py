"""Base classes of stages, and the execution that computes and caches their results."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch

from submission.data.dataset import Input
from submission.data.document_store import Documents, documents_code, open_documents
from submission.engine.base import HERE, Engine
from submission.inference.checkpoint_io import Opened
from submission.inference.token_ids import ReadTokens, Tokens
from submission.rankings import dumps, loads, ranked, refuse_faulty
from submission.storage.artifact_store import Kept
from submission.storage.cache_directory import Work
from submission.storage.code_fingerprint import code_fingerprint
from submission.systems.checkpoint_store import Checkpoints, Remembered
from submission.systems.explanation import Explained

log = logging.getLogger(__name__)

T = TypeVar("T")

# Modules that pass a component its inputs, each of which has a key of its own: hashed without their imports.
SERVICES = (__name__, "submission.systems.checkpoint_store", "submission.storage.checkpoint_directory")


class Component(ABC):
    """A part of a system; subclasses are frozen dataclasses, so that equal components are computed once."""

    checkpoint: str | None  # name of its checkpoint, if any

    def made_of(self) -> tuple[Component, ...]:
        """Return the components it depends on."""
        return ()

    def opened(self, checkpoints: Checkpoints) -> Opened | None:
        """Load its checkpoint, if it has one. Raises CheckpointError."""
        return None

    def code(self) -> str:
        """Return the hash of the code of its class and of everything that this imports, but for what SERVICES import."""
        modules = {base.__module__ for base in type(self).__mro__ if issubclass(base, Component)}
        return code_fingerprint(*sorted(modules.difference(SERVICES)), shallow=SERVICES)

    def decided_by(self, execution: Execution) -> list[str]:
        """Return extra parts of the cache key, beside the component, input, code and sub-components. Raises CheckpointError."""
        opened = self.opened(execution.checkpoints)
        return [] if opened is None else [opened.fingerprint]


class Stage(Component):
    """A method that ranks documents for each topic; equal stages produce equal rankings.

    If the input supplies a ranking, a stage ranks exactly its documents; otherwise it searches.
    """

    def lists(self, execution: Execution) -> pd.DataFrame:
        """Rank documents; call `Execution.lists` instead, which caches the result."""
        candidates = execution.given
        if candidates is None:
            return self.search(execution)
        return ranked(candidates.assign(score=self.scores(execution, candidates)), execution.topics)

    @abstractmethod
    def search(self, execution: Execution) -> pd.DataFrame:
        """Search the collection; used if no ranking is supplied."""

    @abstractmethod
    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Compute the scores (N,) of pairs `qid docno`, also for documents it would not retrieve."""

    @abstractmethod
    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Explain a document's score for a topic. Raises UsageError if the score was supplied."""

    def formula(self, checkpoints: Checkpoints) -> str:
        """Return the checkpoint's formula as a line of text. Raises CheckpointError."""
        return ""

    def metadata(self, name: Callable[[Stage], str]) -> dict[str, Any]:
        """Return its ir-metadata.yml entries; `name` names its dependencies."""
        return {}

    def of_list(self, file: Path) -> str:
        """Describe the ranked documents if a ranking is supplied in a file."""
        return f"the documents in {file.name}"


def walk(component: Component) -> Iterator[Component]:
    """Yield a component and its transitive dependencies, each once, dependencies first."""
    seen: set[Component] = set()

    def visit(current: Component) -> Iterator[Component]:
        if current not in seen:
            seen.add(current)
            for dependency in current.made_of():
                yield from visit(dependency)
            yield current

    return visit(component)


class Execution:
    """Inputs of all stages and the memo of their results."""

    def __init__(
        self, source: Input, checkpoints: Checkpoints, device: torch.device, work: Work, engine: Engine = HERE
    ) -> None:
        """Create an execution; `engine` computes shards on `device`."""
        self.input, self.checkpoints, self.device, self.work, self.engine = source, checkpoints, device, work, engine
        self.stopwatch = source.stopwatch
        self._remembered = Remembered()

    @property
    def computed_on(self) -> str:
        """Return the device type, plus the encoder precision unless it is float32."""
        precision = self.checkpoints.precision
        return self.device.type if precision is None else f"{self.device.type} {precision}"

    @property
    def topics(self) -> pd.DataFrame:
        """Return the topics `qid query`."""
        return self.input.topics

    @cached_property
    def documents(self) -> Documents:
        """Open the document store. Raises InputError, OutputError."""
        return open_documents(self.input, self.work)

    @cached_property
    def tokens(self) -> Tokens:
        """Return the token ids of topics and documents."""
        return ReadTokens(self.topics, self.documents.texts, self.stopwatch)

    @cached_property
    def given(self) -> pd.DataFrame | None:
        """Return the supplied ranking, or None. Raises InputError."""
        return self.input.given(self.documents.unknown)

    def lists(self, stage: Stage) -> pd.DataFrame:
        """Return a stage's ranking; remembers results and failures. Raises whatever the stage raises."""
        return self.once(stage, "lists", lambda: self._made(stage))

    def once(self, owner: Hashable, name: str, make: Callable[[], T]) -> T:
        """Return, or re-raise, the outcome of the first call of `make`."""
        return self._remembered.once(owner, name, make)

    def once_of_collection(self, owner: Hashable, name: str, make: Callable[[], T]) -> T:
        """Compute once a value that depends only on the collection."""
        return self.once(owner, name, make)

    def key(self, component: Component) -> str:
        """The hash of everything that decides a component's results. Raises CheckpointError."""
        inputs = [self.input.fingerprint, documents_code()]
        parts = [repr(component), *inputs, component.code(), *component.decided_by(self)]
        return sha256("\n".join([*parts, *map(self.key, component.made_of())]).encode()).hexdigest()

    def place(self, name: str, code: str, *decided_by: str) -> Kept:
        """Open the store of an artifact of the collection.

        Args:
            name: Name of the artifact.
            code: Hash of the code that computes it from the documents.
            decided_by: Further parts of the cache key.

        Raises:
            OutputError: If the store cannot be created.
        """
        return self.work.place(name, " ".join([self.input.corpus_fingerprint, documents_code(), code, *decided_by]))

    def place_of_pairs(self, name: str, code: str, *decided_by: str) -> Kept:
        """Open the store of an artifact of the topics' documents, as `place` does. Raises OutputError."""
        return self.place(name, code, *decided_by)

    def _made(self, stage: Stage) -> pd.DataFrame:
        name = "-".join([type(stage).__name__.lower(), *([stage.checkpoint] if stage.checkpoint else [])])
        cache = self.work.place(f"ranking-{name}", self.key(stage))
        return loads(cache.content("ranking.msgpack", lambda: dumps(self._checked(stage))))

    def _checked(self, stage: Stage) -> pd.DataFrame:
        ranking = stage.lists(self)
        refuse_faulty(ranking, self.topics, self.documents.unknown(ranking["docno"]))
        return ranking
