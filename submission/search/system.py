"""Systems from Python: `open_system("dirichlet").search(arguments, questions)`."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pandas as pd
import torch

from submission.errors import UsageError
from submission.lists import DEEPEST, cut, of_rows
from submission.paths import CHECKPOINTS
from submission.scoring.device import choose_device
from submission.search.arguments import Arguments, Questions, corpus_of, topics_of
from submission.search.searcher import Searcher
from submission.systems.catalogue import System, find
from submission.systems.remembered import Checkpoints

DEPTH = 100  # documents of a question, as in a run


@dataclass(frozen=True)
class OpenSystem:
    """A system that ranks what it is given."""

    system: System
    checkpoints: Checkpoints
    device: torch.device

    def search(self, arguments: Arguments, questions: Questions, depth: int = DEPTH) -> pd.DataFrame:
        """The best arguments for each question: `qid docno rank score`, as `rank` writes them.

        Arguments are a frame `docno premise` (and `conclusion`), texts, or the Path of a directory; questions a frame
        `qid query`, texts, or one text. As everywhere, a premise of less than 15 words is none.

        Raises:
            InputError, UsageError: these cannot be searched. CheckpointError: the system's cannot be used.
        """
        with self.over(arguments) as index:
            return index.search(questions, depth)

    def over(self, arguments: Arguments, work: Path | None = None) -> Index:
        """An index of arguments that stays open; it is kept in the directory `work`, if one is given.

        Raises:
            InputError, UsageError: as `search`. OutputError: that directory cannot be written.
        """
        return Index(self, Searcher(corpus_of(arguments), self.checkpoints, self.device, work))


class Index:
    """Arguments that are searched by a system; open until it is closed, or nobody has it any more. A context manager."""

    def __init__(self, opened: OpenSystem, searcher: Searcher) -> None:
        """Open it. Raises OutputError."""
        self._stage, self._searcher = opened.system.stage, searcher.__enter__()
        self._close = weakref.finalize(self, searcher.__exit__, None, None, None)

    def search(self, questions: Questions, depth: int = DEPTH) -> pd.DataFrame:
        """The best arguments for each question: `qid docno rank score`.

        Raises:
            InputError, UsageError, CheckpointError: as `OpenSystem.search`.
        """
        if not 1 <= depth <= DEEPEST:
            raise UsageError(f"depth {depth}; expected a whole number from 1 to {DEEPEST}")
        topics = topics_of(questions)
        return of_rows([]) if topics.empty else cut(self._searcher.lists(self._stage, topics), depth)

    @property
    def closed(self) -> bool:
        """Tell whether the index is closed."""
        return not self._close.alive

    def close(self) -> None:
        """Close it; what it kept in a working directory stays."""
        self._close()

    def __enter__(self) -> Index:
        """Return the index itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def open_system(name: str, checkpoints: Path = CHECKPOINTS, device: str = "auto") -> OpenSystem:
    """A system by its name; its checkpoints are opened when it is asked. Raises UsageError: an unknown name, no such device."""
    return OpenSystem(find(name), Checkpoints(checkpoints), choose_device(device))
