"""Search from Python: `open_system("dirichlet").search(arguments, questions)`."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pandas as pd
import torch

from submission.errors import UsageError
from submission.inference.device import choose_device
from submission.paths import CHECKPOINTS
from submission.rankings import DEEPEST, DEPTH, cut, of_rows
from submission.search.inputs import Arguments, Questions, corpus_of, topics_of
from submission.search.searcher import Searcher
from submission.systems.catalogue import System, find
from submission.systems.checkpoint_store import Checkpoints


@dataclass(frozen=True)
class OpenSystem:
    """A system that can search any arguments."""

    system: System
    checkpoints: Checkpoints
    device: torch.device

    def search(self, arguments: Arguments, questions: Questions, depth: int = DEPTH) -> pd.DataFrame:
        """Return the best arguments for each query: `qid docno rank score`, as `rank` writes them.

        Args:
            arguments: a frame `docno premise` (optionally `conclusion`), texts, or the Path of an input directory; premises
                with fewer than 15 words are not indexed.
            questions: queries as a frame `qid query`, texts, or one text.
            depth: maximum number of arguments per query.

        Raises:
            InputError, UsageError: invalid arguments or queries.
            CheckpointError: a checkpoint cannot be loaded.
        """
        with self.over(arguments) as index:
            return index.search(questions, depth)

    def over(self, arguments: Arguments, work: Path | None = None) -> Index:
        """Index arguments for repeated searches, cached in `work` if given.

        Raises:
            InputError, UsageError: see `search`.
            OutputError: the directory is not writable.
        """
        return Index(self, Searcher(corpus_of(arguments), self.checkpoints, self.device, work))


class Index:
    """An index of arguments for one system, open until closed or garbage-collected. A context manager."""

    def __init__(self, opened: OpenSystem, searcher: Searcher) -> None:
        """Open the index.

        Raises:
            OutputError: the cache directory is not writable.
        """
        self._stage, self._searcher = opened.system.stage, searcher.__enter__()
        self._close = weakref.finalize(self, searcher.__exit__, None, None, None)

    def search(self, questions: Questions, depth: int = DEPTH) -> pd.DataFrame:
        """Return the best arguments for each query: `qid docno rank score`.

        Raises:
            InputError, UsageError, CheckpointError: see `OpenSystem.search`.
        """
        if not 1 <= depth <= DEEPEST:
            raise UsageError(f"depth {depth}; expected an integer from 1 to {DEEPEST}")
        topics = topics_of(questions)
        return of_rows([]) if topics.empty else cut(self._searcher.lists(self._stage, topics), depth)

    @property
    def closed(self) -> bool:
        """Return whether the index is closed."""
        return not self._close.alive

    def close(self) -> None:
        """Close the index; its cache stays."""
        self._close()

    def __enter__(self) -> Index:
        """Return the index itself."""
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_system(name: str, checkpoints: Path = CHECKPOINTS, device: str = "auto") -> OpenSystem:
    """Load a system by name; its checkpoints are loaded on first use.

    Raises:
        UsageError: unknown name or device.
    """
    return OpenSystem(find(name), Checkpoints(checkpoints), choose_device(device))
