"""Execute queries; collection data are shared, results of a query are discarded with it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TypeVar

import pandas as pd

from submission.data.document_store import DocumentStore
from submission.search.corpus import Corpus
from submission.storage.artifact_store import ArtifactStore
from submission.storage.cache_directory import CacheDirectory
from submission.storage.hashing import combine_hashes
from submission.systems.execution import Execution, Stage

T = TypeVar("T")


class QueryInput(Corpus):
    """The documents of a corpus with queries as topics `qid query`."""

    def __init__(self, corpus: Corpus, topics: pd.DataFrame) -> None:
        super().__init__(corpus.reader, corpus.directory)
        self._corpus, self.topics, self.stopwatch = corpus, topics, corpus.stopwatch

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of documents and queries."""
        queries = "\n".join(map("\t".join, zip(self.topics["qid"], self.topics["query"], strict=True)))
        return combine_hashes({"documents": self.corpus_fingerprint, "questions": queries})

    @property
    def corpus_fingerprint(self) -> str:
        """Return the fingerprint of the corpus, computed once."""
        return self._corpus.corpus_fingerprint


class QueryExecution(Execution):
    """An execution of queries; rankings and scores equal those of rank for topics with these titles."""

    def __init__(self, shared: Execution, corpus: Corpus, topics: pd.DataFrame, scratch: CacheDirectory) -> None:
        """Share collection data with the execution `shared`; cache pair scores in `scratch`."""
        super().__init__(QueryInput(corpus, topics), shared.checkpoints, shared.device, shared.working_directory, shared.engine)
        self._shared, self._scratch = shared, scratch

    @cached_property
    def documents(self) -> DocumentStore:
        """Return the shared documents."""
        return self._shared.documents

    def compute_once_per_collection(self, owner: Hashable, name: str, compute: Callable[[], T]) -> T:
        """Compute once, for whichever query comes first."""
        return self._shared.compute_once(owner, name, compute)

    def open_pair_cache(self, name: str, code: str, *key_parts: str) -> ArtifactStore:
        """Open a store that is deleted with the query."""
        return self._scratch.open_store(name, " ".join([code, *key_parts]))

    def _load_or_rank(self, stage: Stage) -> pd.DataFrame:
        """Compute a ranking without caching it, which would fill the disk query by query."""
        return self._rank_and_validate(stage)
