"""Execute queries; collection data are shared, results of a query are discarded with it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TypeVar

import pandas as pd

from submission.data.document_store import Documents
from submission.search.corpus import Corpus
from submission.storage.artifact_store import Kept
from submission.storage.cache_directory import Work
from submission.storage.hashing import fingerprint
from submission.systems.execution import Execution, Stage

T = TypeVar("T")


class Questions(Corpus):
    """The documents of a corpus with queries as topics."""

    def __init__(self, corpus: Corpus, topics: pd.DataFrame) -> None:
        """Create the input for topics `qid query`."""
        super().__init__(corpus.form, corpus.directory)
        self._corpus, self.topics, self.stopwatch = corpus, topics, corpus.stopwatch

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of documents and queries."""
        queries = "\n".join(map("\t".join, zip(self.topics["qid"], self.topics["query"], strict=True)))
        return fingerprint({"documents": self.corpus_fingerprint, "questions": queries})

    @property
    def corpus_fingerprint(self) -> str:
        """Return the fingerprint of the corpus, computed once."""
        return self._corpus.corpus_fingerprint


class Asking(Execution):
    """An execution of queries; rankings and scores equal those of rank for topics with these titles."""

    def __init__(self, index: Execution, corpus: Corpus, topics: pd.DataFrame, scratch: Work) -> None:
        """Share collection data with the execution `index`; cache pair scores in `scratch`."""
        super().__init__(Questions(corpus, topics), index.checkpoints, index.device, index.work, index.engine)
        self._index, self._scratch = index, scratch

    @cached_property
    def documents(self) -> Documents:
        """Return the shared documents."""
        return self._index.documents

    def once_of_collection(self, owner: Hashable, name: str, make: Callable[[], T]) -> T:
        """Compute once, for whichever query comes first."""
        return self._index.once(owner, name, make)

    def place_of_pairs(self, name: str, code: str, *decided_by: str) -> Kept:
        """Return a cache directory that is deleted with the query."""
        return self._scratch.place(name, " ".join([code, *decided_by]))

    def _made(self, stage: Stage) -> pd.DataFrame:
        """Compute a ranking without caching it, which would fill the disk query by query."""
        return self._checked(stage)
