"""What a stage is, and the execution that makes the lists of stages, each once."""

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
    """What a system is made of. A subclass is a frozen dataclass: equal ones are made once."""

    checkpoint: str | None  # the name of the checkpoint that it reads

    def made_of(self) -> tuple[Component, ...]:
        """The components whose results it takes."""
        return ()

    def opened(self, checkpoints: Checkpoints) -> Opened | None:
        """Its checkpoint. Raises CheckpointError."""
        return None

    def decided_by(self, execution: Execution) -> list[str]:
        """What decides its results beside itself, the input, the code, and what it is made of. Raises CheckpointError."""
        opened = self.opened(execution.checkpoints)
        return [] if opened is None else [opened.fingerprint]


class Stage(Component):
    """How each topic gets its list: equal stages are the same list.

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
        """The scores (N,) of pairs `qid docno` of topics and documents; of documents that it would not list too."""

    @abstractmethod
    def explain(self, execution: Execution, qid: str, docno: str) -> Explained:
        """Why a document has its score for a topic. Raises UsageError: its scores were not made here."""

    def formula(self, checkpoints: Checkpoints) -> str:
        """What its checkpoint says, in a line for people. Raises CheckpointError."""
        return ""

    def metadata(self, name: Callable[[Stage], str]) -> dict[str, Any]:
        """What ir-metadata.yml says of how it treats the stages that it is made of, by their names."""
        return {}

    def of_list(self, file: Path) -> str:
        """What it ranks where a list was handed over in a file, in words."""
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
    """All that stages are made from, and the only place that remembers what was made."""

    def __init__(
        self, source: Input, checkpoints: Checkpoints, device: torch.device, work: Work, engine: Engine = HERE
    ) -> None:
        """One a process; what is computed in parts is computed by the engine, on the device."""
        self.input, self.checkpoints, self.device, self.work, self.engine = source, checkpoints, device, work, engine
        self.stopwatch = source.stopwatch
        self._remembered = Remembered()

    @property
    def topics(self) -> pd.DataFrame:
        """`qid query`."""
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
        return self.once(stage, lambda: self._made(stage))

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, or raises, when it is first asked for."""
        return self._remembered.once(what, make)

    def once_of_collection(self, what: Hashable, make: Callable[[], T]) -> T:
        """The same of what is made of the collection alone, whatever the topics are."""
        return self.once(what, make)

    def key(self, component: Component) -> str:
        """The hash of everything that decides a component's results. Raises CheckpointError."""
        own = [repr(component), self.input.fingerprint, code_fingerprint(), *component.decided_by(self)]
        return sha256("\n".join([*own, *map(self.key, component.made_of())]).encode()).hexdigest()

    def place(self, name: str, *decided_by: str) -> Kept:
        """Where what is made of the collection is kept; some more may decide it. Raises OutputError."""
        return self.work.place(name, " ".join([self.input.corpus_fingerprint, code_fingerprint(), *decided_by]))

    def place_of_pairs(self, name: str, *decided_by: str) -> Kept:
        """Where what is made of the topics' own documents is kept. Raises OutputError."""
        return self.place(name, *decided_by)

    def _made(self, stage: Stage) -> pd.DataFrame:
        name = "-".join([type(stage).__name__.lower(), *([stage.checkpoint] if stage.checkpoint else [])])
        kept = self.work.place(f"lists-{name}", self.key(stage))
        return lists.loads(kept.content("lists.msgpack", lambda: lists.dumps(self._checked(stage))))

    def _checked(self, stage: Stage) -> pd.DataFrame:
        found = stage.lists(self)
        lists.refuse_faulty(found, self.topics, self.documents.unknown(found["docno"]))
        return found
