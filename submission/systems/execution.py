"""The base classes of stages, and the execution that computes the rankings of stages, each once."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd
import torch

from submission import lists
from submission.disk.code import code_fingerprint
from submission.disk.kept import Kept
from submission.disk.work import Work
from submission.engine.engine import HERE, Engine
from submission.input.directory import Input
from submission.input.documents import Documents, open_documents
from submission.scoring.tokens import ReadTokens, Tokens
from submission.systems.explained import Explained
from submission.systems.remembered import Checkpoints, Remembered

log = logging.getLogger(__name__)

T = TypeVar("T")


class Opened(Protocol):
    """An opened checkpoint."""

    @property
    def fingerprint(self) -> str:
        """The hash of everything in it that decides what a stage gives."""


class Component(ABC):
    """A part of a system. A subclass is a frozen dataclass: equal components are computed once."""

    checkpoint: str | None  # the name of the checkpoint that it reads

    def made_of(self) -> tuple[Component, ...]:
        """Return the components whose results it uses."""
        return ()

    def opened(self, checkpoints: Checkpoints) -> Opened | None:
        """Open its checkpoint, if it has one. Raises CheckpointError."""
        return None

    def keeps(self, checkpoints: Checkpoints) -> dict[str, float]:
        """Return about how many bytes it keeps for each byte of the corpus, by the name of what is kept.

        What depends on the topics alone is left out. Raises CheckpointError.
        """
        return {}

    def decided_by(self, execution: Execution) -> list[str]:
        """Return extra parts of the cache key, beside the component, input, code and sub-components. Raises CheckpointError."""
        opened = self.opened(execution.checkpoints)
        return [] if opened is None else [opened.fingerprint]


class Stage(Component):
    """A way to rank documents for each topic; equal stages give the same ranking.

    Where a list was handed over with the input, a stage ranks exactly its documents; else it searches.
    """

    def lists(self, execution: Execution) -> pd.DataFrame:
        """Its lists, see `submission.lists`; asked for by the execution alone, which remembers them."""
        given = execution.given
        if given is None:
            return self.search(execution)
        return lists.ranked(given.assign(score=self.scores(execution, given)), execution.topics)

    @abstractmethod
    def search(self, execution: Execution) -> pd.DataFrame:
        """Its lists where none was handed over."""

    @abstractmethod
    def scores(self, execution: Execution, pairs: pd.DataFrame) -> np.ndarray:
        """Compute the scores (N,) of pairs `qid docno`, also for documents it would not retrieve."""

    @abstractmethod
    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Why a document has its score for a topic. Raises UsageError: its scores were not made here."""

    def formula(self, checkpoints: Checkpoints) -> str:
        """Return the checkpoint's formula as a line of text. Raises CheckpointError."""
        return ""

    def metadata(self, name: Callable[[Stage], str]) -> dict[str, Any]:
        """Return the entries of ir-metadata.yml about its sub-stages, by their names."""
        return {}

    def of_list(self, file: Path) -> str:
        """Describe what it ranks where a list was handed over in a file."""
        return f"exactly the documents of {file.name}"


def walk(component: Component) -> Iterator[Component]:
    """A component and all that it is made of, each once, what is made first coming first."""
    seen: set[Component] = set()

    def visit(one: Component) -> Iterator[Component]:
        if one not in seen:
            seen.add(one)
            for other in one.made_of():
                yield from visit(other)
            yield one

    return visit(component)


class Execution:
    """The inputs of all stages, and the only memory of their results."""

    def __init__(
        self, source: Input, checkpoints: Checkpoints, device: torch.device, work: Work, engine: Engine = HERE
    ) -> None:
        """Create the execution of a process; parts are computed by the engine, on the device."""
        self.input, self.checkpoints, self.device, self.work, self.engine = source, checkpoints, device, work, engine
        self.stopwatch = source.stopwatch
        self._remembered = Remembered()

    @property
    def computed_on(self) -> str:
        """The device and, where it is not the usual one, the precision of encoders."""
        precision = self.checkpoints.precision
        return self.device.type if precision is None else f"{self.device.type} {precision}"

    @property
    def topics(self) -> pd.DataFrame:
        """The topics `qid query`."""
        return self.input.topics

    @cached_property
    def documents(self) -> Documents:
        """The documents. Raises InputError, OutputError."""
        return open_documents(self.input, self.work)

    @cached_property
    def tokens(self) -> Tokens:
        """The texts of topics and documents as ids."""
        return ReadTokens(self.topics, self.documents.texts, self.stopwatch)

    @cached_property
    def given(self) -> pd.DataFrame | None:
        """The lists that were handed over; None: there are none. Raises InputError."""
        return self.input.given(self.documents.unknown)

    def lists(self, stage: Stage) -> pd.DataFrame:
        """A stage's lists, see `submission.lists`; a failure is remembered as they are. Raises what making them does."""
        return self.once(stage, "lists", lambda: self._made(stage))

    def once(self, owner: Hashable, name: str, make: Callable[[], T]) -> T:
        """Return, or raise, the result of the first call of `make`."""
        return self._remembered.once(owner, name, make)

    def once_of_collection(self, owner: Hashable, name: str, make: Callable[[], T]) -> T:
        """Do as `once` for a result that depends on the collection alone."""
        return self.once(owner, name, make)

    def key(self, component: Component) -> str:
        """The hash of everything that decides a component's results. Raises CheckpointError."""
        own = [repr(component), self.input.fingerprint, code_fingerprint(), *component.decided_by(self)]
        return sha256("\n".join([*own, *map(self.key, component.made_of())]).encode()).hexdigest()

    def place(self, name: str, *decided_by: str) -> Kept:
        """Return the place of kept results about the collection; further keys may be given. Raises OutputError."""
        return self.work.place(name, " ".join([self.input.corpus_fingerprint, code_fingerprint(), *decided_by]))

    def place_of_pairs(self, name: str, *decided_by: str) -> Kept:
        """Return the place of kept results about the topics' own documents. Raises OutputError."""
        return self.place(name, *decided_by)

    def _made(self, stage: Stage) -> pd.DataFrame:
        name = "-".join([type(stage).__name__.lower(), *([stage.checkpoint] if stage.checkpoint else [])])
        kept = self.work.place(f"lists-{name}", self.key(stage))
        return lists.loads(kept.content("lists.msgpack", lambda: lists.dumps(self._checked(stage))))

    def _checked(self, stage: Stage) -> pd.DataFrame:
        found = stage.lists(self)
        lists.refuse_faulty(found, self.topics, self.documents.unknown(found["docno"]))
        return found
