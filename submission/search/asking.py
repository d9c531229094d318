"""An execution of questions: what is made of the collection is made once for all of them, the rest goes with its question."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TypeVar

import pandas as pd

from submission.disk.fingerprint import fingerprint
from submission.disk.kept import Kept
from submission.disk.work import Work
from submission.input.documents import Documents
from submission.search.corpus import Corpus
from submission.systems.execution import Execution, Stage

T = TypeVar("T")


class Questions(Corpus):
    """The same documents, with questions as topics."""

    def __init__(self, corpus: Corpus, topics: pd.DataFrame) -> None:
        """Topics `qid query`."""
        super().__init__(corpus.form, corpus.directory)
        self._corpus, self.topics, self.stopwatch = corpus, topics, corpus.stopwatch

    @property
    def fingerprint(self) -> str:
        """The hash of the documents and of the questions."""
        asked = "\n".join(map("\t".join, zip(self.topics["qid"], self.topics["query"], strict=True)))
        return fingerprint({"documents": self.corpus_fingerprint, "questions": asked})

    @property
    def corpus_fingerprint(self) -> str:
        """Return the fingerprint of the corpus, whose files are hashed once."""
        return self._corpus.corpus_fingerprint


class Asking(Execution):
    """An execution over questions, with the lists and scores of `rank` for topics of these words."""

    def __init__(self, index: Execution, corpus: Corpus, topics: pd.DataFrame, scratch: Work) -> None:
        """Take what is made of the collection from the execution `index`; keep what is made of pairs in `scratch`."""
        super().__init__(Questions(corpus, topics), index.checkpoints, index.device, index.work, index.engine)
        self._index, self._scratch = index, scratch

    @cached_property
    def documents(self) -> Documents:
        """Open the documents once."""
        return self._index.documents

    def once_of_collection(self, owner: Hashable, name: str, make: Callable[[], T]) -> T:
        """Made by whichever question needs it first."""
        return self._index.once(owner, name, make)

    def place_of_pairs(self, name: str, *decided_by: str) -> Kept:
        """A place that goes with the question."""
        return self._scratch.place(name, " ".join(decided_by))

    def _made(self, stage: Stage) -> pd.DataFrame:
        """Not kept: who asks often would fill the disk."""
        return self._checked(stage)
