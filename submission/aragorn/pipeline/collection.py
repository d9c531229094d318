"""Define collections: documents, and the results that depend on them alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from aragorn.io import collection, tirex, touche
from aragorn.io.document_store import Corpus, DocumentStore, open_document_store
from aragorn.pipeline.session import Memo, Session
from aragorn.versions import describe_versions

T = TypeVar("T")


class Artifact(ABC, Generic[T]):
    """A cached result of the documents alone, e.g. an index; equal artifacts are built once."""

    title: ClassVar[str]  # noun phrase for progress and metadata

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the cache entry."""

    @abstractmethod
    def describe(self, session: Session) -> str:
        """Describe everything that affects the result, except the documents."""

    @abstractmethod
    def build(self, collection: Collection, directory: Path) -> None:
        """Write the result to an empty directory."""

    @abstractmethod
    def open(self, collection: Collection, directory: Path) -> T:
        """Open a result that `build` has written."""


class Collection:
    """The searched documents and their indexes, shared by threads."""

    def __init__(self, corpus: Corpus, session: Session) -> None:
        self.session = session
        self.stopwatch = corpus.stopwatch
        self.corpus = corpus
        self.memo = Memo()

    @property
    def documents(self) -> DocumentStore:
        """Document store, opened or built on first use."""
        return self.memo.once(
            "documents", "documents", lambda: open_document_store(self.corpus, self.session.cache)
        )

    def get(self, artifact: Artifact[T]) -> T:
        """Return a result of the documents, from memory or the cache, or else built."""

        def load() -> T:
            with self.stopwatch.stage(artifact.title):
                key = self.compute_key(artifact.describe(self.session))
                cache = self.session.cache
                directory = cache.directory(
                    artifact.name, key, lambda path: artifact.build(self, path)
                )
                return artifact.open(self, directory)

        return self.memo.once(artifact, "artifact", load)

    def compute_key(self, *parts: str) -> str:
        versions = describe_versions(touche, tirex, collection)
        return " ".join([self.corpus.corpus_fingerprint, versions, *parts])
