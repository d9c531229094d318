"""Execution of queries: collection data are shared by all queries, other data are deleted with the query."""

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
        """Fingerprint of documents and queries."""
        queries = "\n".join(map("\t".join, zip(self.topics["qid"], self.topics["query"], strict=True)))
        return combine_hashes({"documents": self.corpus_fingerprint, "questions": queries})

    @property
    def corpus_fingerprint(self) -> str:
        """Fingerprint of the documents, computed once for all queries."""
        return self._corpus.corpus_fingerprint


class QueryExecution(Execution):
    """An execution of queries; rankings and scores equal those of `rank` for topics with these titles."""

    def __init__(self, shared: Execution, corpus: Corpus, topics: pd.DataFrame, scratch: CacheDirectory) -> None:
        """Create an execution that shares the collection data of `shared` and caches pair scores in `scratch`."""
        super().__init__(QueryInput(corpus, topics), shared.checkpoints, shared.device, shared.working_directory, shared.engine)
        self._shared, self.scratch = shared, scratch

    @cached_property
    def documents(self) -> DocumentStore:
        """Document store, shared by all queries."""
        return self._shared.documents

    def compute_once_per_collection(self, owner: Hashable, name: str, compute: Callable[[], T]) -> T:
        """Return `compute()`, computed for the first query and reused for all later ones."""
        return self._shared.compute_once(owner, name, compute)

    def open_pair_cache(self, name: str, code: str, *key_parts: str) -> ArtifactStore:
        """Open a cache that is deleted with the query."""
        return self.scratch.open_store(name, " ".join([code, *key_parts]))

    def _load_or_rank(self, stage: Stage) -> pd.DataFrame:
        """Compute a ranking; rankings are kept in memory only, because on disk they would accumulate."""
        return self._rank_and_validate(stage)
